// SPDX-License-Identifier: Apache-2.0
// Tensors by name, wherever they come from: a checkpoint, a file, or a folder
// of files. Loading is one code path over this.
#pragma once

#include "checkpoint/box.h"
#include "graph/tensor_type.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft {

class TensorSource {
 public:
  virtual ~TensorSource() = default;

  // For messages.
  virtual const std::string& path() const = 0;
  // Sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  // The whole tensor's. Throws UserError naming path and tensor when it is not
  // there.
  virtual const TensorType& type(const std::string& name) const = 0;

  // Fills `to`, row-major, with one box of the tensor. The box must fit and
  // `to` have its bytes. Throws UserError when what is on the disk is broken.
  // May be called from several threads.
  virtual void read(
      const std::string& name, const Box& box, std::span<std::byte> to) = 0;
};

// The whole tensor.
std::vector<std::byte> read_whole(
    TensorSource& source, const std::string& name);

// Opens what the path is: a checkpoint (a folder with index.json), a
// `.safetensors` file, or a folder as Hugging Face lays it out: with
// model.safetensors.index.json and the files that it names, or with
// model.safetensors. Throws UserError naming the path and what was looked for.
std::unique_ptr<TensorSource> open_tensors(const std::string& path);

}  // namespace weft
