// SPDX-License-Identifier: Apache-2.0
// Kernels of ours: for nodes that PyTorch has none for (a step of an optimizer)
// and for random nodes, whose numbers must not depend on the plan.
#pragma once

#include "graph/graph.h"
#include "ops/op_def.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

// What random numbers follow from, with the `rng` number of their node.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;
};

struct KernelArguments {
  // Read while binding only.
  const Function& function;
  const Node& node;
  // In the order of weft::operands(node).
  std::vector<at::Tensor> operands;
  // Where the kernel writes. A result may be the very tensor of an operand of
  // the same type (the same memory, seen the same way); it must not overlap one
  // in any other way.
  std::vector<at::Tensor> results;
  // Of result 0: which part of the whole value this rank makes, one a dim.
  std::vector<Piece> piece;
  // Bytes to work in, as many as OpDef::work_bytes says; a kernel that is given
  // none takes them by itself.
  at::Tensor work = {};
};

// The memory to work in, as elements of that type.
at::Tensor work_memory(const KernelArguments& arguments, at::ScalarType type);

// Bound to its tensors; call once a step.
using Kernel = std::function<void(const StepContext&)>;

// The kernel of a node that PyTorch has none for, or whose random numbers must
// not depend on the plan; an empty function for any other node. Throws
// UserError where the node's operands are not those of its operator.
Kernel bind_kernel(KernelArguments arguments);

// The pieces of a value that is not split.
std::vector<Piece> whole_pieces(const Dims& sizes);

}  // namespace weft
