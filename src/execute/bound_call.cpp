// SPDX-License-Identifier: Apache-2.0
#include "execute/bound_call.h"

#include "base/error.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

namespace weft {
namespace {

// Leaves, however the kernel does.
class Inside {
 public:
  explicit Inside(CallMemory& memory) : memory_(memory) { memory_.enter(); }
  ~Inside() { memory_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  CallMemory& memory_;
};

std::string describe(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  std::vector<std::string> strides;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    sizes.push_back(cat(tensor.size(dim)));
    strides.push_back(cat(tensor.stride(dim)));
  }
  return cat("[", join(sizes, ", "), "]{", join(strides, ", "), "}");
}

}  // namespace

BoundCall::BoundCall(
    const AtenCall& call,
    const std::vector<at::Tensor>& operands,
    std::vector<at::Tensor> results,
    CallMemory memory)
    : op_(call.op()),
      arguments_(call.arguments(operands)),
      results_(std::move(results)),
      memory_(std::move(memory)) {
  for (const at::Tensor& operand : operands) {
    if (operand.defined()) {
      keys_ = keys_ | operand.key_set();
    }
  }
  keys_ = keys_ & c10::after_ADInplaceOrView_keyset;
}

void BoundCall::run(torch::jit::Stack& stack) {
  stack.assign(arguments_.begin(), arguments_.end());
  {
    const Inside inside(memory_);
    if (keys_.empty()) {
      op_.callBoxed(stack);
    } else {
      op_.redispatchBoxed(keys_, &stack);
    }
  }
  size_t number = 0;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      accept(number++, value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        accept(number++, tensor);
      }
    }
  }
  if (!memory_.is_learned()) {
    WEFT_CHECK(
        number == results_.size(),
        toString(op_.operator_name()),
        " gives ",
        number,
        " tensors, and the program has ",
        results_.size());
    memory_.learned();
  }
  stack.clear();
}

void BoundCall::accept(size_t number, const at::Tensor& made) {
  const at::Tensor& planned = results_[number];
  if (!planned.defined() || planned.numel() == 0) {
    return;
  }
  const bool is_there = made.const_data_ptr() == planned.const_data_ptr();
  if (!memory_.is_learned()) {
    WEFT_CHECK(
        made.sizes() == planned.sizes() &&
            made.scalar_type() == planned.scalar_type() &&
            (!is_there || made.strides() == planned.strides()),
        toString(op_.operator_name()),
        " gives ",
        describe(made),
        ", and the program has ",
        describe(planned));
    memory_.learn(number, made.const_data_ptr());
  }
  if (!is_there) {
    planned.copy_(made);
  }
}

}  // namespace weft
