// SPDX-License-Identifier: Apache-2.0
#include "search/unit_table.h"

#include <algorithm>

namespace weft {

UnitTable unit_table(
    const std::vector<UnitCost>& costs,
    const std::vector<int32_t>& stands_for) {
  UnitTable out;
  out.before.emplace_back();
  out.before_seconds.push_back(0);
  for (const int32_t number : stands_for) {
    const UnitCost& unit = costs[static_cast<size_t>(number)];
    const double seconds = unit.forward_seconds + unit.backward_seconds;
    out.before.push_back(sum(out.before.back(), unit));
    out.before_seconds.push_back(out.before_seconds.back() + seconds);
    out.largest_parameter_bytes =
        std::max(out.largest_parameter_bytes, unit.parameter_bytes);
    out.largest_gradient_bytes =
        std::max(out.largest_gradient_bytes, unit.gradient_bytes);
    out.slowest_seconds = std::max(out.slowest_seconds, seconds);
  }
  return out;
}

UnitCost sum(const UnitCost& a, const UnitCost& b) {
  return {
      .forward_seconds = a.forward_seconds + b.forward_seconds,
      .backward_seconds = a.backward_seconds + b.backward_seconds,
      .again_seconds = a.again_seconds + b.again_seconds,
      .transfer_seconds = a.transfer_seconds + b.transfer_seconds,
      .update_seconds = a.update_seconds + b.update_seconds,
      .kept_bytes = a.kept_bytes + b.kept_bytes,
      .waiting_bytes = a.waiting_bytes + b.waiting_bytes,
      .temporary_bytes = std::max(a.temporary_bytes, b.temporary_bytes),
      .output_bytes = b.output_bytes,
      .parameter_bytes = a.parameter_bytes + b.parameter_bytes,
      .gradient_bytes = a.gradient_bytes + b.gradient_bytes,
      .state_bytes = a.state_bytes + b.state_bytes,
      .summed_bytes = a.summed_bytes + b.summed_bytes,
      .given_bytes = a.given_bytes + b.given_bytes};
}

UnitCost between(const UnitTable& table, int32_t begin, int32_t end) {
  const UnitCost& a = table.before[static_cast<size_t>(begin)];
  const UnitCost& b = table.before[static_cast<size_t>(end)];
  return {
      .forward_seconds = b.forward_seconds - a.forward_seconds,
      .backward_seconds = b.backward_seconds - a.backward_seconds,
      .again_seconds = b.again_seconds - a.again_seconds,
      .transfer_seconds = b.transfer_seconds - a.transfer_seconds,
      .update_seconds = b.update_seconds - a.update_seconds,
      .kept_bytes = b.kept_bytes - a.kept_bytes,
      .waiting_bytes = b.waiting_bytes - a.waiting_bytes,
      .temporary_bytes = b.temporary_bytes,
      .output_bytes = b.output_bytes,
      .parameter_bytes = b.parameter_bytes - a.parameter_bytes,
      .gradient_bytes = b.gradient_bytes - a.gradient_bytes,
      .state_bytes = b.state_bytes - a.state_bytes,
      .summed_bytes = b.summed_bytes - a.summed_bytes,
      .given_bytes = b.given_bytes - a.given_bytes};
}

}  // namespace weft
