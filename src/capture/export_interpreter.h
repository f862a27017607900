// SPDX-License-Identifier: Apache-2.0
// Runs the forward graph of an exported program through the dispatcher, with
// autograd on, as if the model's own code ran.
#pragma once

#include "capture/recorder.h"
#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace torch::_export {
class Graph;
class Node;
}  // namespace torch::_export

namespace weft {

class ExportInterpreter {
 public:
  // Tells `recorder` which module each call belongs to.
  explicit ExportInterpreter(Recorder& recorder) : recorder_(recorder) {}

  // Binds the graph's inputs (undefined tensors for those that are no tensors)
  // and gives the tensors of its outputs, undefined likewise. A tensor lives as
  // long as a later call reads it. Throws UserError that names the node, its
  // operator and its module when a call fails.
  std::vector<at::Tensor> run(
      const torch::_export::Graph& graph,
      const std::vector<at::Tensor>& inputs);

  // Every module that a call so far belonged to, the outer ones before the
  // inner ones.
  const std::vector<Module>& modules() const { return modules_; }

 private:
  using Tensors = std::unordered_map<std::string, at::Tensor>;

  std::vector<at::Tensor> call(
      const torch::_export::Node& node,
      const torch::_export::Graph& graph,
      const Tensors& tensors);
  std::vector<at::Tensor> call_operator(
      const torch::_export::Node& node,
      const torch::_export::Graph& graph,
      const Tensors& tensors);
  // An operator that takes a graph: a region of the model's code.
  std::vector<at::Tensor> call_region(
      const torch::_export::Node& node, const Tensors& tensors);
  // The path of the innermost module; notes the modules on the way.
  std::string enter_module(const torch::_export::Node& node);

  Recorder& recorder_;
  std::vector<Module> modules_;
  std::unordered_set<std::string> module_paths_;
};

}  // namespace weft
