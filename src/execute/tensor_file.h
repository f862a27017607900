// SPDX-License-Identifier: Apache-2.0
// Tensors by name in one file, in the safetensors format: eight bytes with the
// length of a JSON header, the header, then the elements, row-major and
// little-endian.
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weft {

class TensorFile {
 public:
  // Reads the header. Throws UserError naming the file when it cannot be read
  // or is not of that format.
  explicit TensorFile(const std::string& path);

  bool has(const std::string& name) const { return entries_.contains(name); }

  // Throws UserError naming file and tensor when it is not there.
  const TensorType& type(const std::string& name) const;
  at::Tensor read(const std::string& name) const;

 private:
  struct Entry {
    TensorType type;
    // From the start of the file.
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  const Entry& find(const std::string& name) const;

  std::string path_;
  std::map<std::string, Entry> entries_;
};

struct NamedOutput {
  std::string name;
  at::Tensor tensor;
};

// Replaces the file. Throws UserError naming it when it cannot be written.
void write_tensor_file(
    const std::string& path, const std::vector<NamedOutput>& tensors);

}  // namespace weft
