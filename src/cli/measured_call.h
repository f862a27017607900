// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execute/bound_call.h"
#include "profile/profile.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>

namespace weft {

// One operator on tensors of its own, called as steps call it: results and
// temporaries have their places. What it costs is what the simulator takes it
// to cost, so that a measured share is one of the same figure.
class MeasuredCall {
 public:
  // As the op table writes its examples: "aten.mm", "(f32[8, 4], f32[4, 12])".
  // Operands are random numbers near zero.
  MeasuredCall(std::string_view op, const std::string& example);

  const NodeCosts& costs() const { return costs_; }
  // Must run below autograd.
  void run() { call_->run(stack_); }

 private:
  NodeCosts costs_;
  MemoryMeter meter_;
  at::Tensor room_;
  std::unique_ptr<BoundCall> call_;
  torch::jit::Stack stack_;
};

}  // namespace weft
