// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "graph/most_ranks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace weft {
namespace {

class Verifier {
 public:
  explicit Verifier(const Cluster& cluster) : cluster_(cluster) {}

  void run() {
    check(is_word(cluster_.name), "name is not a word: ", quote(cluster_.name));
    check_device(cluster_.device);
    for (const Device& device : cluster_.other_devices) {
      check_device(device);
    }
    for (const MemoryTier& tier : cluster_.tiers) {
      check_name(tier.name);
      positive(tier.name, "memory_bytes", tier.memory_bytes);
      not_negative(
          tier.name, "read_bytes_per_second", tier.read_bytes_per_second);
      check_link(tier.name, tier.link);
    }
    for (size_t i = 0; i < cluster_.groups.size(); ++i) {
      check_group(i);
      check_device_count(i);
    }
    check(
        cluster_.other_devices.empty() || !cluster_.groups.empty(),
        "several kinds of devices need a group that has them");
  }

 private:
  template <typename... Words>
  void check(bool holds, const Words&... words) const {
    WEFT_CHECK_USER(holds, "cluster @", cluster_.name, ": ", words...);
  }

  template <typename Number>
  void positive(
      const std::string& owner, std::string_view what, Number number) const {
    const auto value = static_cast<double>(number);
    check(
        std::isfinite(value) && value > 0,
        what,
        " of ",
        owner,
        " must be a positive number, not ",
        print_double(value));
  }

  void not_negative(
      const std::string& owner, std::string_view what, double value) const {
    check(
        std::isfinite(value) && value >= 0,
        what,
        " of ",
        owner,
        " must not be negative, and is ",
        print_double(value));
  }

  void check_name(const std::string& name) {
    check(is_word(name), "name is not a word: ", quote(name));
    check(names_.insert(name).second, "name used twice: ", name);
  }

  void check_device(const Device& device) {
    check_name(device.name);
    check(
        !device.rates.empty(),
        "device ",
        device.name,
        " has no flops_per_second");
    std::set<DType> dtypes;
    for (const Rate& rate : device.rates) {
      check(
          dtypes.insert(rate.dtype).second,
          "device ",
          device.name,
          " has two rates for ",
          name(rate.dtype));
      positive(device.name, "flops_per_second", rate.flops_per_second);
    }
    positive(device.name, "memory_bytes", device.memory_bytes);
    positive(
        device.name, "memory_bytes_per_second", device.memory_bytes_per_second);
    not_negative(device.name, "call_seconds", device.call_seconds);
    not_negative(device.name, "launch_seconds", device.launch_seconds);
    check(
        (device.launch_seconds > 0) == (device.run_ahead_calls > 0),
        "device ",
        device.name,
        " needs launch_seconds and run_ahead_calls, or neither");
    not_negative(device.name, "price_per_hour", device.price_per_hour);
    check_tiles(device);
    std::set<Work> works;
    for (const Efficiency& found : device.efficiencies) {
      check(
          works.insert(found.work).second,
          "device ",
          device.name,
          " has two efficiencies for ",
          name(found.work));
      check_points(device.name, name(found.work), found.points);
    }
  }

  void check_points(
      const std::string& owner,
      std::string_view what,
      const std::vector<std::pair<double, double>>& points) const {
    double size = 0;
    for (const auto& [at, share] : points) {
      positive(owner, "efficiency", share);
      check(
          at > size,
          "sizes of the efficiency for ",
          what,
          " of ",
          owner,
          " must grow, and ",
          print_double(at),
          " follows ",
          print_double(size));
      size = at;
    }
  }

  void check_tiles(const Device& device) const {
    check(
        device.tiles.empty() == (device.units == 0),
        "device ",
        device.name,
        " needs units and tiles, or neither");
    not_negative(device.name, "ramp_depth", device.ramp_depth);
    for (const Tile& tile : device.tiles) {
      positive(device.name, "rows of a tile", tile.rows);
      positive(device.name, "columns of a tile", tile.columns);
      positive(device.name, "efficiency of a tile", tile.efficiency);
    }
  }

  void check_link(const std::string& owner, const Link& link) const {
    positive(owner, "bytes_per_second", link.bytes_per_second);
    not_negative(owner, "latency_seconds", link.latency_seconds);
    not_negative(owner, "start_seconds", link.start_seconds);
    check(
        link.device_share >= 0 && link.device_share <= 1,
        "device_share of ",
        owner,
        " must be from 0 to 1, and is ",
        print_double(link.device_share));
    positive(owner, "devices_per_link", link.devices_per_link);
    std::set<std::string> transfers;
    for (const LinkEfficiency& found : link.efficiencies) {
      check(
          transfers.insert(found.transfer).second,
          owner,
          " has two efficiencies for ",
          found.transfer);
      check_points(owner, found.transfer, found.points);
    }
  }

  // A device or group that stands before group `end`.
  bool is_known(const std::string& member, size_t end) const {
    const auto is_device = [&](const Device& device) {
      return device.name == member;
    };
    for (size_t i = 0; i < end; ++i) {
      if (cluster_.groups[i].name == member) {
        return true;
      }
    }
    return is_device(cluster_.device) || std::any_of(
                                             cluster_.other_devices.begin(),
                                             cluster_.other_devices.end(),
                                             is_device);
  }

  void check_group(size_t number) {
    const Group& group = cluster_.groups[number];
    check_name(group.name);
    positive(group.name, "count", group.count);
    check_link(group.name, group.link);
    std::set<std::string> has;
    const std::string before =
        number == 0 ? cluster_.device.name : cluster_.groups[number - 1].name;
    std::vector<Member> members = {
        {group.member.empty() ? before : group.member, group.count}};
    members.insert(members.end(), group.others.begin(), group.others.end());
    for (const Member& member : members) {
      positive(group.name, "count", member.count);
      check(
          is_known(member.name, number),
          "group ",
          group.name,
          " is made of ",
          member.name,
          ", which is no device and no group before it");
      has.insert(member.name);
    }
    for (const Between& between : group.between) {
      for (const std::string& end : {between.a, between.b}) {
        check(
            has.contains(end),
            "group ",
            group.name,
            " has a link of ",
            end,
            ", which is none of its members");
      }
      check_link(
          cat(group.name, " between ", between.a, " and ", between.b),
          between.link);
    }
  }

  // Those before it have been counted.
  void check_device_count(size_t number) {
    const Group& group = cluster_.groups[number];
    const std::string before =
        number == 0 ? cluster_.device.name : cluster_.groups[number - 1].name;
    std::vector<Member> members = {
        {group.member.empty() ? before : group.member, group.count}};
    members.insert(members.end(), group.others.begin(), group.others.end());
    int64_t devices = 0;
    for (const Member& member : members) {
      const auto inner = devices_in_.find(member.name);
      const auto more = checked_product(
          {member.count, inner == devices_in_.end() ? 1 : inner->second});
      check(
          more && *more <= kMostMeshRanks - devices,
          "group ",
          group.name,
          " has more than ",
          with_commas(kMostMeshRanks),
          " devices");
      devices += *more;
    }
    devices_in_[group.name] = devices;
  }

  const Cluster& cluster_;
  std::set<std::string> names_;
  // By the name of a group.
  std::map<std::string, int64_t> devices_in_;
};

}  // namespace

void verify(const Cluster& cluster) { Verifier(cluster).run(); }

}  // namespace weft
