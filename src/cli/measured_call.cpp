// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_call.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "ops/example.h"
#include "ops/kernel.h"
#include "profile/node_costs.h"
#include "profile/signatures.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/randn.h>

#include <utility>

namespace weft {
namespace {

// Exponentials of sums of products of them are neither huge nor denormal.
constexpr double kScale = 0.1;

// As a step has it: of the node itself, with results of those types.
NodeCosts costs_of(Example example, const std::vector<at::Tensor>& results) {
  std::vector<std::string> names;
  std::vector<TensorType> types;
  for (const at::Tensor& result : results) {
    names.push_back(cat("result.", names.size()));
    types.push_back(result.defined() ? type_of(result) : undefined_type());
  }
  add_node(example.function, std::move(example.node), names, types);
  return node_costs(example.function, signatures(example.function)).front();
}

}  // namespace

MeasuredCall::MeasuredCall(std::string_view op, const std::string& example) {
  install_placed_allocator();
  const OpDef* def = find_op(op);
  WEFT_CHECK(def != nullptr, op);
  const Example parsed = parse_example(*def, example);
  std::vector<at::Tensor> operands;
  for (const Input& input : parsed.function.inputs) {
    const TensorType& type = parsed.function[input.value].type;
    at::Tensor operand = at::empty_strided(
        type.sizes, strides_of(type), scalar_type_of(type.dtype));
    operands.push_back(operand.copy_(at::randn(type.sizes).mul_(kScale)));
  }
  const AtenCall call(parsed.node);
  std::vector<at::Tensor> results = call(operands);
  costs_ = costs_of(parsed, results);

  CallMemory memory(&meter_);
  room_ = at::empty({costs_.scratch_bytes + (1 << 16)}, at::kByte);
  memory.add_room(
      static_cast<std::byte*>(room_.mutable_data_ptr()), room_.numel());
  for (const at::Tensor& result : results) {
    memory.add_result(
        result.defined() ? static_cast<std::byte*>(result.mutable_data_ptr())
                         : nullptr,
        result.defined() ? static_cast<int64_t>(result.storage().nbytes()) : 0,
        /*is_fresh=*/true);
  }
  call_ = std::make_unique<BoundCall>(
      call, operands, std::move(results), std::move(memory));
}

}  // namespace weft
