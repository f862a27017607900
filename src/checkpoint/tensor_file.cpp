// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_file.h"

#include "base/error.h"
#include "base/json.h"
#include "base/readable.h"
#include "checkpoint/box.h"
#include "graph/countable.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// The format's own limit.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kLongestShape = 100;

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

Json parse_header(std::string_view text, const std::string& path) {
  Json header;
  try {
    header = parse_json<Json>(text);
  } catch (const UserError& error) {
    throw UserError(
        cat(path, " is not a safetensors file: its header, ", error.what()));
  }
  // Not even spaces may stand before it.
  WEFT_CHECK_USER(
      header.is_object() && text.front() == '{',
      path,
      " is not a safetensors file: its header does not begin with '{'");
  return header;
}

void check_metadata(const Json& metadata) {
  const bool is_texts =
      metadata.is_null() ||
      (metadata.is_object() &&
       std::all_of(metadata.begin(), metadata.end(), [](const Json& value) {
         return value.is_string();
       }));
  WEFT_CHECK_USER(is_texts, "its __metadata__ is not made of texts");
}

struct EntryText {
  DType dtype = DType::F32;
  Dims sizes;
  Dims offsets;
};

EntryText entry_text(const std::string& name, const Json& json) {
  try {
    return {
        dtype_in_file(json.at("dtype")),
        whole_numbers(json.at("shape")),
        whole_numbers(json.at("data_offsets"))};
  } catch (const Json::exception& error) {
    throw UserError(cat("tensor ", quote(name), ": ", json_fault(error)));
  } catch (const UserError& error) {
    throw UserError(cat("tensor ", quote(name), ": ", error.what()));
  }
}

// Where a tensor lies among the elements.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;
};

// One after the other, in some order, without holes, to the end of the file.
void check_extents(std::vector<Extent> extents, int64_t elements_bytes) {
  std::sort(
      extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
      });
  int64_t next = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Extent& extent = extents[i];
    WEFT_CHECK_USER(
        extent.begin >= next,
        "tensors ",
        quote(extents[i == 0 ? 0 : i - 1].name),
        " and ",
        quote(extent.name),
        " overlap, at byte ",
        extent.begin,
        " of the elements");
    WEFT_CHECK_USER(
        extent.begin == next,
        "bytes ",
        next,
        " to ",
        extent.begin,
        " of the elements belong to no tensor; the next one is ",
        quote(extent.name));
    next = extent.end;
  }
  WEFT_CHECK_USER(
      next == elements_bytes,
      "the last tensor ends at byte ",
      next,
      " of the elements, and there are ",
      elements_bytes);
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
  WEFT_CHECK_USER(length <= kLongestHeader, path, " is not a safetensors file");
  WEFT_CHECK_USER(
      length <= all.size() - sizeof(length),
      path,
      " is cut short: it ends in its header");
  const std::span<const std::byte> header = all.subspan(sizeof(length), length);
  const Json parsed = parse_header(
      {reinterpret_cast<const char*>(header.data()), header.size()}, path);
  try {
    read_entries(parsed, all.subspan(sizeof(length) + length));
  } catch (const UserError& error) {
    throw UserError(cat(path, ": ", error.what()));
  }
}

// The type and bytes of every tensor; the elements are all theirs, each byte
// once, as the format asks.
void TensorFileReader::read_entries(
    const nlohmann::ordered_json& header, std::span<const std::byte> elements) {
  std::vector<Extent> extents;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(value);
      continue;
    }
    const EntryText entry = entry_text(name, value);
    const std::span<const std::byte> bytes =
        part_of(elements, name, entry.offsets);
    WEFT_CHECK_USER(
        is_countable(entry.dtype, entry.sizes) &&
            element_bytes(entry.dtype) *
                    element_count(whole_box(entry.sizes)) ==
                std::ssize(bytes),
        "tensor ",
        quote(name),
        " has ",
        bytes.size(),
        " bytes for ",
        value.at("dtype"),
        " ",
        shortened(value.at("shape").dump(), kLongestShape));
    extents.push_back({entry.offsets[0], entry.offsets[1], name});
    entries_[name] = {make_type(entry.dtype, entry.sizes), bytes};
  }
  check_extents(std::move(extents), std::ssize(elements));
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
  begin(path, entries, metadata);
}

TensorFileWriter::TensorFileWriter(
    const OutputFolder& folder,
    const std::string& name,
    const std::vector<TensorFileEntry>& entries)
    : file_(folder, name) {
  begin(cat(folder.path(), "/", name), entries, {});
}

void TensorFileWriter::begin(
    const std::string& path,
    const std::vector<TensorFileEntry>& entries,
    const std::map<std::string, std::string>& metadata) {
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
