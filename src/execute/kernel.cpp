// SPDX-License-Identifier: Apache-2.0
#include "execute/kernel.h"

#include "execute/batch_norm_kernel.h"
#include "execute/ctc_kernel.h"
#include "execute/expert_rows_kernel.h"
#include "execute/fused_kernel.h"
#include "execute/guard.h"
#include "execute/optimizer_kernel.h"
#include "execute/optimizer_settings.h"
#include "execute/random_kernel.h"
#include "ops/call.h"
#include "ops/crossing.h"

#include <ATen/ops/empty.h>

namespace weft {

namespace {

// Attention has a generator in its schema and draws nothing on a CPU: what the
// op table knows is believed, and of other ops the schema.
bool draws(const Node& node) {
  return find_op(node.op) != nullptr ? is_random(node)
                                     : find_option(node, kRngOption) != nullptr;
}

}  // namespace

Kernel bind_kernel(KernelArguments arguments) {
  if (has_optimizer_kernel(arguments.node)) {
    return bind_optimizer_kernel(std::move(arguments));
  }
  if (is_guard(arguments.node)) {
    return bind_guard_kernel(std::move(arguments));
  }
  if (crossing_of(arguments.node)) {
    return [from = arguments.operands.front(), to = arguments.results.front()](
               const StepContext&) { to.copy_(from); };
  }
  if (Kernel kernel = bind_batch_norm_kernel(arguments)) {
    return kernel;
  }
  if (Kernel kernel = bind_ctc_kernel(arguments)) {
    return kernel;
  }
  if (Kernel kernel = bind_expert_rows_kernel(arguments)) {
    return kernel;
  }
  if (Kernel kernel = bind_fused_kernel(arguments)) {
    return kernel;
  }
  if (draws(arguments.node)) {
    return bind_random_kernel(std::move(arguments));
  }
  return {};
}

at::Tensor work_memory(const KernelArguments& arguments, at::ScalarType type) {
  const at::Tensor bytes =
      arguments.work.defined()
          ? arguments.work
          : at::empty(
                {work_bytes_of(arguments.function, arguments.node)},
                arguments.results.front().options().dtype(at::kByte));
  return bytes.view(type);
}

std::vector<Piece> whole_pieces(const Dims& sizes) {
  std::vector<Piece> pieces;
  pieces.reserve(sizes.size());
  for (const int64_t size : sizes) {
    pieces.push_back({0, size, size});
  }
  return pieces;
}

}  // namespace weft
