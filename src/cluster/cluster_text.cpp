// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "graph/most_ranks.h"

#include <algorithm>
#include <string>

namespace weft {
namespace {

std::string field(std::string_view name, double value) {
  return cat("  ", name, " = ", print_double(value), "\n");
}

std::string field(std::string_view name, int64_t value) {
  return cat("  ", name, " = ", value, "\n");
}

std::string print_link(const Link& link) {
  std::string out = field("latency_seconds", link.latency_seconds) +
                    field("bytes_per_second", link.bytes_per_second);
  if (link.start_seconds > 0) {
    out += field("start_seconds", link.start_seconds);
  }
  if (link.device_share > 0) {
    out += field("device_share", link.device_share);
  }
  if (link.devices_per_link > 1) {
    out += field("devices_per_link", link.devices_per_link);
  }
  for (const LinkEfficiency& found : link.efficiencies) {
    for (const auto& [size, share] : found.points) {
      out += field(
          cat("efficiency ", found.transfer, " ", print_double(size)), share);
    }
  }
  return out;
}

std::string print_products(const Device& device) {
  std::string out;
  if (device.units > 0) {
    out += field("units", device.units);
  }
  for (const Tile& tile : device.tiles) {
    out += field(cat("tile ", tile.rows, " x ", tile.columns), tile.efficiency);
  }
  if (device.ramp_depth > 0) {
    out += field("ramp_depth", device.ramp_depth);
  }
  for (const Efficiency& found : device.efficiencies) {
    for (const auto& [size, share] : found.points) {
      out += field(
          cat("efficiency ", name(found.work), " ", print_double(size)), share);
    }
  }
  return out;
}

std::string print_device(const Device& device) {
  std::string out = cat("device ", device.name, "\n");
  for (const Rate& rate : device.rates) {
    out += field(
        cat("flops_per_second ", name(rate.dtype)), rate.flops_per_second);
  }
  out += field("memory_bytes", device.memory_bytes) +
         field("memory_bytes_per_second", device.memory_bytes_per_second) +
         field("call_seconds", device.call_seconds);
  if (device.launch_seconds > 0) {
    out += field("launch_seconds", device.launch_seconds) +
           field("run_ahead_calls", device.run_ahead_calls);
  }
  if (device.price_per_hour > 0) {
    out += field("price_per_hour", device.price_per_hour);
  }
  return out + print_products(device);
}

std::string indented(const std::string& lines) {
  std::string out = "  ";
  for (size_t i = 0; i < lines.size(); ++i) {
    out += lines[i];
    if (lines[i] == '\n' && i + 1 < lines.size()) {
      out += "  ";
    }
  }
  return out;
}

std::string print_group(const Group& group, const std::string& before) {
  std::string out =
      cat("group ",
          group.name,
          " = ",
          group.count,
          " x ",
          group.member.empty() ? before : group.member);
  for (const Member& member : group.others) {
    out += cat(" + ", member.count, " x ", member.name);
  }
  out += "\n" + print_link(group.link);
  for (const Between& between : group.between) {
    out += cat("  between ", between.a, " ", between.b, "\n") +
           indented(print_link(between.link));
  }
  return out;
}

}  // namespace

std::string print(const Cluster& cluster) {
  std::string out = cat("cluster @", cluster.name, "\n");
  out += print_device(cluster.device);
  for (const Device& device : cluster.other_devices) {
    out += print_device(device);
  }
  for (const MemoryTier& tier : cluster.tiers) {
    out += cat("tier ", tier.name, "\n") +
           field("memory_bytes", tier.memory_bytes);
    if (tier.read_bytes_per_second > 0) {
      out += field("read_bytes_per_second", tier.read_bytes_per_second);
    }
    out += print_link(tier.link);
  }
  // What a group without a name for its members is made of.
  const std::string* before = &cluster.device.name;
  for (const Group& group : cluster.groups) {
    out += print_group(group, *before);
    before = &group.name;
  }
  return out;
}

namespace {

// What numbers may be, far beyond any machine, so that sums and products of
// them are exact.
constexpr IntegerRange kBytes = {1, int64_t{1} << 60};
constexpr IntegerRange kCount = {0, 1'000'000'000};
constexpr IntegerRange kSide = {1, 1'000'000};
constexpr IntegerRange kDevices = {1, kMostMeshRanks};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source)
      : source_(source), scanner_(text, source) {}

  Cluster run() {
    Cluster cluster;
    scanner_.expect("cluster");
    scanner_.expect("@");
    cluster.name = scanner_.expect_word();
    scanner_.expect("device");
    cluster.device = device();
    while (scanner_.take("device")) {
      cluster.other_devices.push_back(device());
    }
    while (scanner_.take("tier")) {
      MemoryTier tier;
      tier.name = scanner_.expect_word();
      tier.memory_bytes = int_field("memory_bytes", kBytes);
      if (scanner_.looking_at("read_bytes_per_second")) {
        tier.read_bytes_per_second = double_field("read_bytes_per_second");
      }
      tier.link = link();
      cluster.tiers.push_back(std::move(tier));
    }
    while (scanner_.take("group")) {
      cluster.groups.push_back(group(cluster));
    }
    if (!scanner_.at_end()) {
      fail_at_line(cluster);
    }
    try {
      verify(cluster);
    } catch (const UserError& error) {
      throw UserError(cat(source_, ": ", error.what()));
    }
    return cluster;
  }

 private:
  // At a line that is none of those that may follow.
  [[noreturn]] void fail_at_line(const Cluster& cluster) {
    if (!cluster.groups.empty()) {
      scanner_.fail_expected(
          "another line of the group (start_seconds, device_share, "
          "devices_per_link, efficiency, between), 'group' or the end");
    }
    if (!cluster.tiers.empty()) {
      scanner_.fail_expected(
          "another line of the tier (start_seconds, device_share, "
          "devices_per_link, efficiency), 'tier', 'group' or the end");
    }
    scanner_.fail_expected(
        "another line of the device, in this order: launch_seconds, "
        "run_ahead_calls, price_per_hour, units, tile, ramp_depth, efficiency; "
        "or 'device', 'tier', 'group' or the end");
  }

  double value(std::string_view what, NumberRange range) {
    scanner_.expect("=");
    return expect_number(scanner_, what, range);
  }

  double rate_field(std::string_view name) {
    scanner_.expect(name);
    return value(name, NumberRange::Positive);
  }

  // Seconds, and what else may be 0.
  double double_field(std::string_view name) {
    scanner_.expect(name);
    return value(name, NumberRange::NotNegative);
  }

  int64_t int_field(std::string_view name, const IntegerRange& range) {
    scanner_.expect(name);
    scanner_.expect("=");
    return expect_integer(scanner_, name, range);
  }

  // A point of a curve, after the name of what it is about.
  std::pair<double, double> size_and_share() {
    const double size =
        expect_number(scanner_, "a size", NumberRange::Positive);
    return {size, value("an efficiency", NumberRange::Positive)};
  }

  Rate rate() {
    const size_t mark = scanner_.mark();
    const std::string dtype = scanner_.expect_word();
    const std::optional<DType> known = dtype_from_name(dtype);
    if (!known) {
      scanner_.fail_at(mark, cat("unknown element type ", quote(dtype)));
    }
    return {*known, value("flops_per_second", NumberRange::Positive)};
  }

  // One point, into the curve of its work.
  void point(Device& device) {
    const size_t mark = scanner_.mark();
    const std::string word = scanner_.expect_word();
    const auto work =
        std::find_if(std::begin(kWorks), std::end(kWorks), [&](Work each) {
          return name(each) == word;
        });
    if (work == std::end(kWorks)) {
      std::vector<std::string> known;
      for (const Work each : kWorks) {
        known.emplace_back(name(each));
      }
      scanner_.fail_at(
          mark,
          cat("unknown work ", quote(word), ": there are ", join(known, ", ")));
    }
    if (device.efficiencies.empty() ||
        device.efficiencies.back().work != *work) {
      device.efficiencies.push_back({*work, {}});
    }
    device.efficiencies.back().points.push_back(size_and_share());
  }

  void point(Link& link) {
    const size_t mark = scanner_.mark();
    const std::string word = scanner_.expect_word();
    if (std::find(std::begin(kTransfers), std::end(kTransfers), word) ==
        std::end(kTransfers)) {
      scanner_.fail_at(
          mark,
          cat("unknown transfer ",
              quote(word),
              ": there are ",
              join(
                  std::vector<std::string>(
                      std::begin(kTransfers), std::end(kTransfers)),
                  ", ")));
    }
    if (link.efficiencies.empty() ||
        link.efficiencies.back().transfer != word) {
      link.efficiencies.push_back({word, {}});
    }
    link.efficiencies.back().points.push_back(size_and_share());
  }

  Device device() {
    Device device;
    device.name = scanner_.expect_word();
    while (scanner_.take("flops_per_second")) {
      device.rates.push_back(rate());
    }
    device.memory_bytes = int_field("memory_bytes", kBytes);
    device.memory_bytes_per_second = rate_field("memory_bytes_per_second");
    device.call_seconds = double_field("call_seconds");
    if (scanner_.looking_at("launch_seconds")) {
      device.launch_seconds = double_field("launch_seconds");
      device.run_ahead_calls = int_field("run_ahead_calls", kCount);
    }
    if (scanner_.looking_at("price_per_hour")) {
      device.price_per_hour = double_field("price_per_hour");
    }
    if (scanner_.looking_at("units")) {
      device.units = int_field("units", kCount);
    }
    while (scanner_.take("tile")) {
      Tile tile;
      tile.rows = expect_integer(scanner_, "rows of a tile", kSide);
      scanner_.expect("x");
      tile.columns = expect_integer(scanner_, "columns of a tile", kSide);
      tile.efficiency = value("an efficiency", NumberRange::Positive);
      device.tiles.push_back(tile);
    }
    if (scanner_.looking_at("ramp_depth")) {
      device.ramp_depth = double_field("ramp_depth");
    }
    while (scanner_.take("efficiency")) {
      point(device);
    }
    return device;
  }

  Link link() {
    Link link;
    link.latency_seconds = double_field("latency_seconds");
    link.bytes_per_second = rate_field("bytes_per_second");
    if (scanner_.looking_at("start_seconds")) {
      link.start_seconds = double_field("start_seconds");
    }
    if (scanner_.looking_at("device_share")) {
      link.device_share = double_field("device_share");
    }
    if (scanner_.looking_at("devices_per_link")) {
      link.devices_per_link = int_field("devices_per_link", kDevices);
    }
    while (scanner_.take("efficiency")) {
      point(link);
    }
    return link;
  }

  // What a group may be made of: what stands before it.
  Member member(const Cluster& cluster, const std::string& of_group) {
    Member member;
    member.count = expect_integer(scanner_, "a count of members", kDevices);
    scanner_.expect("x");
    const size_t mark = scanner_.mark();
    member.name = scanner_.expect_word();
    std::vector<std::string> known = {cluster.device.name};
    for (const Device& device : cluster.other_devices) {
      known.push_back(device.name);
    }
    for (const Group& group : cluster.groups) {
      known.push_back(group.name);
    }
    if (std::find(known.begin(), known.end(), member.name) == known.end()) {
      scanner_.fail_at(
          mark,
          cat("group ",
              of_group,
              " must be made of what stands before it (",
              join(known, ", "),
              "), not of ",
              member.name));
    }
    return member;
  }

  Group group(const Cluster& cluster) {
    Group group;
    group.name = scanner_.expect_word();
    scanner_.expect("=");
    const Member first = member(cluster, group.name);
    group.count = first.count;
    const std::string& before = cluster.groups.empty()
                                    ? cluster.device.name
                                    : cluster.groups.back().name;
    if (first.name != before) {
      group.member = first.name;
    }
    while (scanner_.take("+")) {
      group.others.push_back(member(cluster, group.name));
    }
    group.link = link();
    while (scanner_.take("between")) {
      Between between;
      between.a = scanner_.expect_word();
      between.b = scanner_.expect_word();
      between.link = link();
      group.between.push_back(std::move(between));
    }
    return group;
  }

  const std::string source_;
  Scanner scanner_;
};

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& source) {
  return Parser(text, source).run();
}

}  // namespace weft
