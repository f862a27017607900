// SPDX-License-Identifier: Apache-2.0
#include "execute/ctc_kernel.h"

#include "aten/ctc_loss.h"
#include "ops/call.h"

#include <string_view>
#include <utility>
#include <vector>

namespace weft {
namespace {

// What a kernel keeps of KernelArguments.
struct CtcCall {
  Node node;
  std::vector<at::Tensor> operands;
  std::vector<at::Tensor> results;
};

bool flag_at(const Node& node, size_t position) {
  return std::get<bool>(node.args.at(position).data);
}

void run_targets(const CtcCall& in) {
  const std::vector<at::Tensor>& given = in.operands;
  const bool selects = given.size() == 3;
  in.results[0].copy_(ctc_targets(
      given[0],
      selects ? std::optional<at::Tensor>(given[1]) : std::nullopt,
      given.back(),
      int_arg(in.node, 3, 1)));
}

void run_loss(const CtcCall& in) {
  const std::vector<at::Tensor>& given = in.operands;
  const auto [losses, states] = ctc_loss(
      given[0],
      given[1],
      given[2],
      given[3],
      int_arg(in.node, 4, 0),
      flag_at(in.node, 5));
  in.results[0].copy_(losses);
  in.results[1].copy_(states);
}

void run_backward(const CtcCall& in) {
  const std::vector<at::Tensor>& given = in.operands;
  in.results[0].copy_(ctc_loss_backward(
      given[0],
      given[1],
      given[2],
      given[3],
      given[4],
      given[5],
      given[6],
      int_arg(in.node, 7, 0),
      flag_at(in.node, 8)));
}

}  // namespace

Kernel bind_ctc_kernel(const KernelArguments& arguments) {
  const std::string_view op = arguments.node.op;
  void (*run)(const CtcCall&) = op == "weft.ctc_targets"         ? &run_targets
                                : op == "weft.ctc_loss"          ? &run_loss
                                : op == "weft.ctc_loss_backward" ? &run_backward
                                                                 : nullptr;
  if (run == nullptr) {
    return {};
  }
  return
      [run,
       bound = CtcCall{arguments.node, arguments.operands, arguments.results}](
          const StepContext&) { run(bound); };
}

}  // namespace weft
