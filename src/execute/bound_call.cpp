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

// Every element at the same place: the stride of a dim of size 1 says nothing.
bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) > 1 && a.stride(dim) != b.stride(dim)) {
      return false;
    }
  }
  return true;
}

// The elements are not those of the memory but their conjugates or negatives.
bool is_marked(const at::Tensor& tensor) {
  return tensor.is_conj() || tensor.is_neg();
}

template <typename Visit>
void for_each_result(const torch::jit::Stack& stack, Visit&& visit) {
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) {
      visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        visit(tensor);
      }
    }
  }
}

std::vector<at::Tensor> results_on(const torch::jit::Stack& stack) {
  std::vector<at::Tensor> results;
  for_each_result(
      stack, [&](const at::Tensor& made) { results.push_back(made); });
  return results;
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
  if (!memory_.is_learned()) {
    accept_first(results_on(stack));
  } else {
    size_t number = 0;
    for_each_result(
        stack, [&](const at::Tensor& made) { accept(number++, made); });
  }
  stack.clear();
}

void BoundCall::accept(size_t number, const at::Tensor& made) {
  const at::Tensor& planned = results_[number];
  if (planned.defined() && planned.numel() > 0 &&
      (is_marked(made) || made.const_data_ptr() != planned.const_data_ptr())) {
    planned.copy_(is_marked(made) ? made.clone() : made);
  }
}

void BoundCall::accept_first(const std::vector<at::Tensor>& made) {
  const std::string op = toString(op_.operator_name());
  WEFT_CHECK(
      made.size() == results_.size(),
      op,
      " gives ",
      made.size(),
      " tensors, and the program has ",
      results_.size());
  // Results may lie in each other's places: all are saved before one moves.
  std::vector<std::pair<size_t, at::Tensor>> astray;
  for (size_t i = 0; i < made.size(); ++i) {
    const at::Tensor& planned = results_[i];
    if (!planned.defined() || planned.numel() == 0) {
      continue;
    }
    WEFT_CHECK(
        made[i].sizes() == planned.sizes() &&
            made[i].scalar_type() == planned.scalar_type(),
        op,
        " gives ",
        describe(made[i]),
        ", and the program has ",
        describe(planned));
    // Kernels of another machine may lay their results out otherwise: those are
    // copied, and what was taken for them is a temporary.
    const bool is_alike = lie_alike(made[i], planned) && !is_marked(made[i]);
    if (is_alike) {
      memory_.learn(i, made[i].const_data_ptr());
    }
    if (!is_alike || made[i].const_data_ptr() != planned.const_data_ptr()) {
      astray.emplace_back(i, made[i].clone());
    }
  }
  for (const auto& [number, copy] : astray) {
    results_[number].copy_(copy);
  }
  memory_.learned();
}

}  // namespace weft
