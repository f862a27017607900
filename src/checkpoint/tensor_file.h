// SPDX-License-Identifier: Apache-2.0
// Tensors by name in one file, in the safetensors format: eight bytes with the
// length of a JSON header, the header, then the elements, row-major and
// little-endian. Torch-free: tensors are a type and a span of bytes.
#pragma once

#include "checkpoint/mapped_file.h"
#include "checkpoint/output_file.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace weft {

class TensorFileReader {
 public:
  // Maps the file and checks its header as strictly as the format's own
  // library: every tensor has the bytes that its type needs, and together they
  // are all bytes behind the header, each once. Throws UserError naming the
  // file.
  explicit TensorFileReader(const std::string& path);

  const std::string& path() const { return file_.path(); }
  bool has(const std::string& name) const { return entries_.contains(name); }
  // Sorted.
  std::vector<std::string> names() const;

  // Throw UserError naming file and tensor when it is not there.
  const TensorType& type(const std::string& name) const;
  // Valid as long as this object.
  std::span<const std::byte> bytes(const std::string& name) const;

 private:
  struct Entry {
    TensorType type;
    std::span<const std::byte> bytes;
  };

  void read_entries(
      const nlohmann::ordered_json& header,
      std::span<const std::byte> elements);
  const Entry& find(const std::string& name) const;

  MappedFile file_;
  std::map<std::string, Entry> entries_;
};

struct TensorFileEntry {
  std::string name;
  // Row-major.
  TensorType type;
};

// Writes a file tensor by tensor, so that it need not fit into memory. The
// header comes first in the file, so names and types are given at once.
class TensorFileWriter {
 public:
  // Replaces the file. Throws UserError on a name given twice, on a dtype that
  // the format lacks (c128), and on every error of the disk.
  TensorFileWriter(
      const std::string& path,
      const std::vector<TensorFileEntry>& entries,
      const std::map<std::string, std::string>& metadata = {});

  TensorFileWriter(
      const OutputFolder& folder,
      const std::string& name,
      const std::vector<TensorFileEntry>& entries);

  // The bytes of the next tensor, in the order of `entries`: the whole tensor,
  // or consecutive parts of it in several calls.
  void write(std::span<const std::byte> bytes);

  // From the start of the file to the first byte of the entry.
  int64_t offset_bytes(size_t entry) const;
  // What the whole file takes.
  int64_t total_bytes() const { return offsets_bytes_.back(); }

  // All must be written. The file is then on the disk.
  void finish();

 private:
  void begin(
      const std::string& path,
      const std::vector<TensorFileEntry>& entries,
      const std::map<std::string, std::string>& metadata);

  OutputFile file_;
  // Of every entry, and the end of the last.
  std::vector<int64_t> offsets_bytes_;
};

}  // namespace weft
