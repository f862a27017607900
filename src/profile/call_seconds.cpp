// SPDX-License-Identifier: Apache-2.0
#include "profile/call_seconds.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

double rounds_of(int64_t size, int64_t piece) {
  return static_cast<double>((size + piece - 1) / piece);
}

double tiled_seconds(
    const ProductSize& size,
    int64_t tile_rows,
    int64_t tile_columns,
    double flops_per_second,
    const Device& device) {
  const double tiles = static_cast<double>(size.count) *
                       rounds_of(size.rows, tile_rows) *
                       rounds_of(size.columns, tile_columns);
  const auto units = static_cast<double>(device.units);
  const double rounds = rounds_of(static_cast<int64_t>(tiles), device.units);
  const double tile_flops =
      2.0 * static_cast<double>(tile_rows) * static_cast<double>(tile_columns) *
      (static_cast<double>(size.depth) + device.ramp_depth);
  return rounds * tile_flops * units / flops_per_second;
}

}  // namespace

double product_seconds(
    const ProductSize& size, DType dtype, const Device& device) {
  const double rate = flops_per_second(device, dtype);
  if (device.tiles.empty()) {
    const double flops =
        2.0 * static_cast<double>(size.count) * static_cast<double>(size.rows) *
        static_cast<double>(size.columns) * static_cast<double>(size.depth);
    const double part = flops / static_cast<double>(size.count);
    return flops / (rate * efficiency(device, Work::Product, part));
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Tile& tile : device.tiles) {
    const double reached = rate * tile.efficiency;
    least = std::min(
        {least,
         tiled_seconds(size, tile.rows, tile.columns, reached, device),
         tiled_seconds(size, tile.columns, tile.rows, reached, device)});
  }
  return least;
}

namespace {

// Of what the device computes, whatever it reads and writes.
double compute_seconds(
    const NodeCosts& costs, DType dtype, const Device& device) {
  if (costs.work == Work::Product && costs.product.rows > 0) {
    return product_seconds(costs.product, dtype, device);
  }
  const auto work = static_cast<double>(
      costs.functions > 0 ? costs.functions : costs.flops - costs.hidden_flops);
  const double share =
      efficiency(device, costs.work, work / static_cast<double>(costs.parts));
  return work / (flops_per_second(device, dtype) * share);
}

}  // namespace

double call_seconds(
    const NodeCosts& costs,
    DType dtype,
    const Device& device,
    const std::vector<Use>& uses) {
  if (costs.is_free) {
    return 0;
  }
  const double compute = compute_seconds(costs, dtype, device);
  const auto bytes =
      static_cast<double>(costs.read_bytes + costs.written_bytes);
  const double rate = device.memory_bytes_per_second;
  const double share = efficiency(device, Work::Memory, bytes);
  double fetch = 0;
  for (const Use& use : uses) {
    const double since =
        efficiency(device, Work::Memory, static_cast<double>(use.since_bytes));
    fetch += static_cast<double>(use.bytes) / rate *
             std::max(0.0, 1 / since - 1 / share);
  }
  return device.call_seconds + std::max(compute, bytes / (rate * share)) +
         fetch;
}

}  // namespace weft
