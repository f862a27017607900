// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

// One node of a Graph as a call of PyTorch's dispatcher. Name, arguments and
// defaults are looked up once; each call then only puts the tensors in.
//
// A `storage_offset` (as_strided) counts from the first element of operand 0 in
// a Graph, wherever that lies in its storage; PyTorch's counts from the
// beginning of the storage.
class AtenCall {
 public:
  // Results of operators without tensor arguments (zeros, arange) lie on
  // `device`. Throws UserError when PyTorch has no such operator or its schema
  // does not take these arguments.
  explicit AtenCall(const Node& node, c10::Device device = c10::kCPU);

  // `operands` in the order of weft::operands(node). Gives all results, the
  // tensors of a list one by one; those that the kernel leaves undefined (a
  // gradient that was not asked for) are undefined tensors, so positions match
  // node.results. Runs below autograd; c10::Error passes through.
  std::vector<at::Tensor> operator()(c10::ArrayRef<at::Tensor> operands) const;

  // All arguments of the call with these operands, for callers who make the
  // same call many times; and the operator.
  std::vector<c10::IValue> arguments(c10::ArrayRef<at::Tensor> operands) const;
  const c10::OperatorHandle& op() const { return op_; }

 private:
  // Where operands go: argument `position` takes those numbered in `operands`
  // (-1 for `none` in a list).
  struct Slot {
    enum class Kind : uint8_t { Tensor, List, OptionalList };
    Kind kind = Kind::Tensor;
    size_t position = 0;
    std::vector<int> operands;
  };

  void set(size_t position, const Arg& arg);
  void set_tensors(size_t position, const Arg& arg);

  c10::OperatorHandle op_;
  // Every argument; empty where a slot fills it in.
  std::vector<c10::IValue> arguments_;
  std::vector<Slot> slots_;
  int operand_count_ = 0;
  // The argument that is a place in the storage of operand 0.
  std::optional<size_t> offset_at_;
};

}  // namespace weft
