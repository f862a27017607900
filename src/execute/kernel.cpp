// SPDX-License-Identifier: Apache-2.0
#include "execute/kernel.h"

#include "execute/optimizer_kernel.h"
#include "execute/optimizer_settings.h"
#include "execute/random_kernel.h"

namespace weft {

Kernel bind_kernel(KernelArguments arguments) {
  if (has_optimizer_kernel(arguments.node)) {
    return bind_optimizer_kernel(std::move(arguments));
  }
  if (is_random(arguments.node) ||
      find_option(arguments.node, kRngOption) != nullptr) {
    return bind_random_kernel(std::move(arguments));
  }
  return {};
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
