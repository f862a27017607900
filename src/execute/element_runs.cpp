// SPDX-License-Identifier: Apache-2.0
#include "execute/element_runs.h"

#include <algorithm>

namespace weft {

void for_each_run(
    const std::vector<Piece>& piece,
    int64_t begin,
    int64_t end,
    const std::function<void(const ElementRun&)>& visit) {
  // From the last split dim on, elements lie together.
  size_t outer = piece.size();
  int64_t run = 1;
  int64_t whole_run = 1;
  while (outer > 0) {
    const Piece& dim = piece[outer - 1];
    --outer;
    run *= dim.size;
    whole_run *= dim.whole;
    if (dim.size != dim.whole) {
      break;
    }
  }
  const int64_t start_in_run =
      piece.empty() ? 0
                    : piece[outer].start *
                          (run / std::max<int64_t>(piece[outer].size, 1));
  for (int64_t at = begin; at < end;) {
    const int64_t inside = at % run;
    int64_t rest = at / run;
    int64_t stride = whole_run;
    int64_t first = start_in_run + inside;
    for (size_t dim = outer; dim-- > 0;) {
      first += (piece[dim].start + rest % piece[dim].size) * stride;
      rest /= piece[dim].size;
      stride *= piece[dim].whole;
    }
    const int64_t count = std::min(run - inside, end - at);
    visit({static_cast<uint64_t>(first), at, count});
    at += count;
  }
}

}  // namespace weft
