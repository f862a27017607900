// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace weft {

int64_t device_count(const Cluster& cluster) {
  int64_t count = 1;
  for (const Group& group : cluster.groups) {
    count *= group.count;
  }
  return count;
}

double flops_per_second(const Device& device, DType dtype) {
  for (const Rate& rate : device.rates) {
    if (rate.dtype == dtype) {
      return rate.flops_per_second;
    }
  }
  WEFT_CHECK(!device.rates.empty(), "device ", device.name, " has no rates");
  return device.rates.front().flops_per_second;
}

const Link& link_between(
    const Cluster& cluster, const std::vector<int64_t>& ranks) {
  WEFT_CHECK(!ranks.empty());
  const auto [lowest, highest] =
      std::minmax_element(ranks.begin(), ranks.end());
  int64_t inside = 1;
  for (const Group& group : cluster.groups) {
    inside *= group.count;
    if (*lowest / inside == *highest / inside) {
      return group.link;
    }
  }
  throw UserError(
      cat("cluster @",
          cluster.name,
          " has ",
          device_count(cluster),
          " device(s) and no link for rank ",
          *highest));
}

namespace {

void check_word(const Cluster& cluster, const std::string& word) {
  WEFT_CHECK_USER(
      is_word(word),
      "cluster @",
      cluster.name,
      ": name is not a word: ",
      quote(word));
}

void check_positive(
    const Cluster& cluster,
    const std::string& owner,
    std::string_view what,
    double value) {
  WEFT_CHECK_USER(
      std::isfinite(value) && value > 0,
      "cluster @",
      cluster.name,
      ": ",
      what,
      " of ",
      owner,
      " must be a positive number, not ",
      print_double(value));
}

void check_not_negative(
    const Cluster& cluster,
    const std::string& owner,
    std::string_view what,
    double value) {
  WEFT_CHECK_USER(
      std::isfinite(value) && value >= 0,
      "cluster @",
      cluster.name,
      ": ",
      what,
      " of ",
      owner,
      " must not be negative, and is ",
      print_double(value));
}

}  // namespace

void verify(const Cluster& cluster) {
  check_word(cluster, cluster.name);
  const Device& device = cluster.device;
  check_word(cluster, device.name);
  WEFT_CHECK_USER(
      !device.rates.empty(),
      "cluster @",
      cluster.name,
      ": device ",
      device.name,
      " has no flops_per_second");
  std::set<DType> dtypes;
  for (const Rate& rate : device.rates) {
    WEFT_CHECK_USER(
        dtypes.insert(rate.dtype).second,
        "cluster @",
        cluster.name,
        ": device ",
        device.name,
        " has two rates for ",
        name(rate.dtype));
    check_positive(
        cluster, device.name, "flops_per_second", rate.flops_per_second);
  }
  check_positive(
      cluster,
      device.name,
      "memory_bytes",
      static_cast<double>(device.memory_bytes));
  check_positive(
      cluster,
      device.name,
      "memory_bytes_per_second",
      device.memory_bytes_per_second);
  check_not_negative(cluster, device.name, "call_seconds", device.call_seconds);

  std::set<std::string> names = {device.name};
  for (const Group& group : cluster.groups) {
    check_word(cluster, group.name);
    WEFT_CHECK_USER(
        names.insert(group.name).second,
        "cluster @",
        cluster.name,
        ": name used twice: ",
        group.name);
    check_positive(
        cluster, group.name, "count", static_cast<double>(group.count));
    check_positive(
        cluster, group.name, "bytes_per_second", group.link.bytes_per_second);
    check_not_negative(
        cluster, group.name, "latency_seconds", group.link.latency_seconds);
  }
}

}  // namespace weft
