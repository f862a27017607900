// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/mapped_file.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <span>
#include <string>

namespace weft {

// One array of NumPy, `.npy` of version 1, 2 or 3.
class NpyFile {
 public:
  // Throws UserError naming the file: not of that format, cut short, Fortran
  // order, big-endian, or of a dtype that has no counterpart (records, text,
  // objects).
  explicit NpyFile(const std::string& path);

  const TensorType& type() const { return type_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile file_;
  TensorType type_;
  std::span<const std::byte> bytes_;
};

}  // namespace weft
