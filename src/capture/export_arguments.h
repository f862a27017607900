// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

namespace torch::_export {
class Argument;
class Graph;
}  // namespace torch::_export

namespace weft {

// The tensor of that name in the exported program.
using TensorOf = std::function<at::Tensor(const std::string& name)>;

// An argument of an exported call as the dispatcher takes it; the schema's type
// decides between an integer and a float, a number and a tensor that stands for
// one. Devices become the CPU: where a step runs is the plan's matter. Symbolic
// numbers are looked up in `graph`. Throws UserError for what has no place in a
// call of the dispatcher, std::bad_variant_access for a kind that the schema of
// this PyTorch does not have.
c10::IValue dispatcher_value(
    const torch::_export::Argument& argument,
    const c10::Argument& declared,
    const torch::_export::Graph& graph,
    const TensorOf& tensor_of);

// The names of the tensors in an argument or a result, in order; "" in the
// place of what is no tensor.
std::vector<std::string> tensor_names(const torch::_export::Argument& argument);

}  // namespace weft
