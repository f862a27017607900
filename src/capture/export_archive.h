// SPDX-License-Identifier: Apache-2.0
// A .pt2 file: what torch.export.save wrote, read without Python.
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace torch::_export {
class ExportedProgram;
class PayloadConfig;
class SymInt;
class TensorMeta;
}  // namespace torch::_export

namespace weft {

class ExportArchive {
 public:
  // Throws UserError when the file is missing, is no zip archive, ends early,
  // holds no exported program, or one of a schema that is not known here.
  explicit ExportArchive(const std::string& path);
  ~ExportArchive();
  ExportArchive(const ExportArchive&) = delete;
  ExportArchive& operator=(const ExportArchive&) = delete;

  const torch::_export::ExportedProgram& program() const { return *program_; }

  // Equal for two parameters that were one tensor when they were saved; "" for
  // a name that has no weight stored.
  std::string weight_identity(const std::string& name) const;

  // A stored constant with its values. Throws UserError when there is none.
  at::Tensor constant(const std::string& name) const;

 private:
  std::string record(const std::string& name) const;
  nlohmann::json json_of(const std::string& name) const;
  torch::_export::PayloadConfig payload_config(const std::string& name) const;

  std::string path_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  std::unique_ptr<torch::_export::ExportedProgram> program_;
  std::unique_ptr<torch::_export::PayloadConfig> weights_;
  std::unique_ptr<torch::_export::PayloadConfig> constants_;
};

// The size; of a symbolic one, that of the batch that the model was exported
// with. Throws UserError for one that depends on data.
int64_t size_of(const torch::_export::SymInt& size);

// Throws UserError for an element type or a layout that a Graph cannot hold.
TensorType type_of(const torch::_export::TensorMeta& meta);

// torch's number for the element type that the file has as `serialized`.
at::ScalarType exported_scalar_type(int64_t serialized);

// The paths of the leaves of a tree of arguments, in order ("0", "1.mask"),
// from its description in the file: a tuple of positional arguments and a dict
// of keywords for inputs, anything for outputs. Empty for a description that is
// not one.
std::vector<std::string> input_paths(const std::string& tree);
std::vector<std::string> output_paths(const std::string& tree);

}  // namespace weft
