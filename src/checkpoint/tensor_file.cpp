// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_file.h"

#include "base/error.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// The format's own limit is 100 MB; more is a file of another kind.
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

std::string_view name_in_file(DType dtype) {
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

// The bytes of a tensor of these sizes, or -1 where the sizes are not those of
// a tensor (negative, or more than an int64 counts).
int64_t bytes_of(DType dtype, const Dims& sizes) {
  int64_t bytes = element_bytes(dtype);
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return -1;
    }
  }
  return bytes;
}

std::span<const std::byte> part_of(
    std::span<const std::byte> elements,
    const std::string& name,
    const Dims& offsets) {
  const auto size = static_cast<int64_t>(elements.size());
  WEFT_CHECK_USER(
      offsets.size() == 2 && 0 <= offsets[0] && offsets[0] <= offsets[1],
      "tensor ",
      quote(name),
      " has offsets that are no range");
  WEFT_CHECK_USER(
      offsets[1] <= size,
      "the file is cut short: tensor ",
      quote(name),
      " ends at byte ",
      offsets[1],
      " of the elements, and there are ",
      size);
  return elements.subspan(
      static_cast<size_t>(offsets[0]),
      static_cast<size_t>(offsets[1] - offsets[0]));
}

std::string header_text(
    const std::vector<TensorFileEntry>& entries,
    const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  int64_t offset = 0;
  for (const TensorFileEntry& entry : entries) {
    WEFT_CHECK(entry.type.strides.empty(), entry.name, " is not row-major");
    const int64_t end = offset + storage_bytes(entry.type);
    header[entry.name] = {
        {"dtype", name_in_file(entry.type.dtype)},
        {"shape", entry.type.sizes},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  // So that elements are aligned in a file that is mapped into memory.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

TensorFileReader::TensorFileReader(const std::string& path) : file_(path) {
  const std::span<const std::byte> all = file_.bytes();
  uint64_t length = 0;
  WEFT_CHECK_USER(
      all.size() >= sizeof(length), path, " is not a safetensors file");
  std::memcpy(&length, all.data(), sizeof(length));
  WEFT_CHECK_USER(length < kLongestHeader, path, " is not a safetensors file");
  WEFT_CHECK_USER(
      length <= all.size() - sizeof(length),
      path,
      " is cut short: it ends in its header");
  const std::span<const std::byte> header = all.subspan(sizeof(length), length);
  const std::span<const std::byte> elements =
      all.subspan(sizeof(length) + length);
  try {
    const auto* text = reinterpret_cast<const char*>(header.data());
    const Json parsed = Json::parse(text, text + header.size());
    for (const auto& [name, value] : parsed.items()) {
      if (name == "__metadata__") {
        continue;
      }
      const DType dtype = dtype_in_file(value.at("dtype"));
      Dims sizes = value.at("shape").get<Dims>();
      const std::span<const std::byte> bytes =
          part_of(elements, name, value.at("data_offsets").get<Dims>());
      WEFT_CHECK_USER(
          bytes_of(dtype, sizes) == std::ssize(bytes),
          "tensor ",
          quote(name),
          " has ",
          bytes.size(),
          " bytes for ",
          value.at("dtype"),
          " ",
          value.at("shape"));
      entries_[name] = {make_type(dtype, std::move(sizes)), bytes};
    }
  } catch (const UserError& error) {
    throw UserError(cat(path, ": ", error.what()));
  } catch (const Json::exception& error) {
    throw UserError(cat(path, " is not a safetensors file: ", error.what()));
  }
}

std::vector<std::string> TensorFileReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    names.push_back(name);
  }
  return names;
}

const TensorFileReader::Entry& TensorFileReader::find(
    const std::string& name) const {
  const auto found = entries_.find(name);
  WEFT_CHECK_USER(
      found != entries_.end(), path(), " has no tensor ", quote(name));
  return found->second;
}

const TensorType& TensorFileReader::type(const std::string& name) const {
  return find(name).type;
}

std::span<const std::byte> TensorFileReader::bytes(
    const std::string& name) const {
  return find(name).bytes;
}

TensorFileWriter::TensorFileWriter(
    const std::string& path,
    const std::vector<TensorFileEntry>& entries,
    const std::map<std::string, std::string>& metadata)
    : file_(path) {
  std::set<std::string> seen;
  for (const TensorFileEntry& entry : entries) {
    WEFT_CHECK_USER(
        seen.insert(entry.name).second,
        "cannot write ",
        path,
        ": two tensors have the name ",
        quote(entry.name));
  }
  const std::string text = header_text(entries, metadata);
  const uint64_t length = text.size();
  offsets_bytes_.push_back(static_cast<int64_t>(sizeof(length) + length));
  for (const TensorFileEntry& entry : entries) {
    offsets_bytes_.push_back(offsets_bytes_.back() + storage_bytes(entry.type));
  }
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
}

void TensorFileWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
}

int64_t TensorFileWriter::offset_bytes(size_t entry) const {
  return offsets_bytes_.at(entry);
}

void TensorFileWriter::finish() {
  WEFT_CHECK(
      file_.written_bytes() == total_bytes(),
      "a tensor file of ",
      total_bytes(),
      " bytes was given ",
      file_.written_bytes());
  file_.sync_and_close();
}

}  // namespace weft
