// SPDX-License-Identifier: Apache-2.0
#include "execute/tensor_file.h"

#include "aten/types.h"
#include "base/error.h"
#include "base/text.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Headers are small; a larger number is a file of another kind.
constexpr uint64_t kLongestHeader = uint64_t{1} << 30;

constexpr std::array<std::pair<DType, std::string_view>, 16> kNames = {{
    {DType::F64, "F64"},
    {DType::F32, "F32"},
    {DType::F16, "F16"},
    {DType::BF16, "BF16"},
    {DType::F8E4M3, "F8_E4M3"},
    {DType::F8E5M2, "F8_E5M2"},
    {DType::I64, "I64"},
    {DType::I32, "I32"},
    {DType::I16, "I16"},
    {DType::I8, "I8"},
    {DType::U8, "U8"},
    {DType::U16, "U16"},
    {DType::U32, "U32"},
    {DType::U64, "U64"},
    {DType::Bool, "BOOL"},
    {DType::C64, "C64"},
}};

std::string_view file_name_of(DType dtype) {
  for (const auto& [known, text] : kNames) {
    if (known == dtype) {
      return text;
    }
  }
  throw UserError(
      cat("a tensor file cannot hold elements of type ", name(dtype)));
}

DType dtype_in_file(const std::string& text) {
  for (const auto& [known, name] : kNames) {
    if (name == text) {
      return known;
    }
  }
  throw UserError(cat("unknown element type ", quote(text)));
}

}  // namespace

TensorFile::TensorFile(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  WEFT_CHECK_USER(file.good(), "cannot open ", path);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  WEFT_CHECK_USER(
      file.good() && length < kLongestHeader,
      path,
      " is not a safetensors file");
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  WEFT_CHECK_USER(file.good(), path, " ends in its header");
  const auto start = static_cast<int64_t>(sizeof(length) + length);
  try {
    const Json parsed = Json::parse(header);
    for (const auto& [name, value] : parsed.items()) {
      if (name == "__metadata__") {
        continue;
      }
      Entry entry;
      entry.type = make_type(
          dtype_in_file(value.at("dtype")), value.at("shape").get<Dims>());
      const Dims offsets = value.at("data_offsets").get<Dims>();
      entry.offset = start + offsets.at(0);
      entry.bytes = offsets.at(1) - offsets.at(0);
      WEFT_CHECK_USER(
          entry.bytes ==
              element_count(entry.type) * element_bytes(entry.type.dtype),
          "tensor ",
          quote(name),
          " has ",
          entry.bytes,
          " bytes for ",
          print(entry.type));
      entries_[name] = entry;
    }
  } catch (const std::exception& error) {
    throw UserError(cat(path, ": ", error.what()));
  }
}

const TensorFile::Entry& TensorFile::find(const std::string& name) const {
  const auto found = entries_.find(name);
  WEFT_CHECK_USER(
      found != entries_.end(), path_, " has no tensor ", quote(name));
  return found->second;
}

const TensorType& TensorFile::type(const std::string& name) const {
  return find(name).type;
}

at::Tensor TensorFile::read(const std::string& name) const {
  const Entry& entry = find(name);
  at::Tensor tensor =
      at::empty(entry.type.sizes, scalar_type_of(entry.type.dtype));
  std::ifstream file(path_, std::ios::binary);
  file.seekg(entry.offset);
  file.read(static_cast<char*>(tensor.data_ptr()), entry.bytes);
  WEFT_CHECK_USER(
      file.good() || entry.bytes == 0,
      path_,
      " ends inside the tensor ",
      quote(name));
  return tensor;
}

void write_tensor_file(
    const std::string& path, const std::vector<NamedOutput>& tensors) {
  Json header = Json::object();
  std::string elements;
  for (const NamedOutput& output : tensors) {
    const at::Tensor tensor = output.tensor.contiguous();
    const size_t start = elements.size();
    elements.append(
        static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    header[output.name] = {
        {"dtype", file_name_of(dtype_of(tensor.scalar_type()))},
        {"shape", tensor.sizes().vec()},
        {"data_offsets", {start, elements.size()}}};
  }
  std::string text = header.dump();
  // So that elements are aligned in a file that is mapped into memory.
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string content(sizeof(length), '\0');
  std::memcpy(content.data(), &length, sizeof(length));
  write_file(path, content + text + elements);
}

}  // namespace weft
