// SPDX-License-Identifier: Apache-2.0
#include "execute/explain_lookup.h"

#include "base/text.h"
#include "ops/table_lookup.h"

#include <ATen/ops/_local_scalar_dense.h>

#include <optional>

namespace weft {
namespace {

// The first number that is outside of 0 to size - 1.
std::optional<int64_t> outsider(
    const at::Tensor& numbers, int64_t size, std::optional<int64_t> ignored) {
  const at::Tensor flat = numbers.reshape({-1}).to(at::kLong);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const auto number = flat[i].item<int64_t>();
    if ((number < 0 || number >= size) && number != ignored) {
      return number;
    }
  }
  return std::nullopt;
}

// "the batch's input_ids", through views and copies; else "%name".
std::string source_of(const Function& function, ValueId value) {
  value = copied_from(function, value);
  for (const Input& input : function.inputs) {
    if (input.value == value && input.kind == InputKind::Batch) {
      return cat("the batch's ", input.keys.front());
    }
  }
  return cat("%", function[value].name);
}

}  // namespace

std::string explain_lookup(
    const Function& function,
    const Node& node,
    const std::vector<at::Tensor>& tensors) {
  const std::optional<TableLookup> lookup = table_lookup_of(node);
  if (!lookup) {
    return "";
  }
  const at::Tensor& table = tensors[index(lookup->table)];
  const at::Tensor& numbers = tensors[index(lookup->numbers)];
  if (!table.defined() || !numbers.defined() || table.dim() <= lookup->dim) {
    return "";
  }
  const int64_t size = table.size(lookup->dim);
  const std::optional<int64_t> found = outsider(numbers, size, lookup->ignored);
  return found ? cat(": ",
                     *found,
                     " in ",
                     source_of(function, lookup->numbers),
                     " is outside of the ",
                     size,
                     " of %",
                     function[lookup->table].name,
                     ", which are 0 to ",
                     size - 1)
               : "";
}

}  // namespace weft
