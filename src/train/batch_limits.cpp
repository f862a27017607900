// SPDX-License-Identifier: Apache-2.0
#include "train/batch_limits.h"

#include "base/error.h"
#include "ops/table_lookup.h"

#include <algorithm>

namespace weft {

std::vector<BatchLimit> batch_limits(const Graph& graph) {
  const Function& step = step_of(graph);
  std::vector<BatchLimit> limits;
  for (const Node& node : step.nodes) {
    const std::optional<TableLookup> lookup = table_lookup_of(node);
    if (!lookup) {
      continue;
    }
    const ValueId from = copied_from(step, lookup->numbers);
    const TensorType& table = step[lookup->table].type;
    for (const Input& input : step.inputs) {
      if (input.value == from && input.kind == InputKind::Batch) {
        limits.push_back(
            {input.keys.front(),
             table.sizes[static_cast<size_t>(lookup->dim)],
             lookup->ignored,
             step[lookup->table].name});
      }
    }
  }
  return limits;
}

void verify(const BatchLimit& limit, const at::Tensor& numbers) {
  if (numbers.scalar_type() != at::kLong) {
    return;
  }
  const at::Tensor dense = numbers.contiguous();
  const auto* begin = dense.const_data_ptr<int64_t>();
  const auto* end = begin + dense.numel();
  const auto* found = std::find_if(begin, end, [&](int64_t number) {
    return (number < 0 || number >= limit.size) && number != limit.ignored;
  });
  WEFT_CHECK_USER(
      found == end,
      *found,
      " in the batch's ",
      limit.key,
      " is outside of the ",
      limit.size,
      " of %",
      limit.table,
      ", which are 0 to ",
      limit.size - 1);
}

}  // namespace weft
