// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_change.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/most_ranks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace weft {
namespace {

ClusterChange parse_change(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view word = text.substr(0, equals);
  const auto figure = std::find_if(
      std::begin(kClusterFigures),
      std::end(kClusterFigures),
      [&](ClusterFigure each) { return name(each) == word; });
  if (figure == std::end(kClusterFigures)) {
    std::vector<std::string> known;
    for (const ClusterFigure each : kClusterFigures) {
      known.emplace_back(name(each));
    }
    throw UserError(
        cat("a cluster has no ",
            quote(word),
            " to change; there are ",
            join(known, ", "),
            ", as in bandwidth=2x"));
  }
  std::string_view value =
      equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const double times = take_number(value).value_or(0);
  WEFT_CHECK_USER(
      value == "x" && times > 0,
      word,
      " is changed by a factor, as in ",
      word,
      "=2x or ",
      word,
      "=0.5x; found ",
      quote(text));
  return {*figure, times};
}

// Of every device.
template <typename Change>
void each_device(Cluster& cluster, const Change& change) {
  change(cluster.device);
  for (Device& device : cluster.other_devices) {
    change(device);
  }
}

// Of every link between devices.
template <typename Change>
void each_link(Cluster& cluster, const Change& change) {
  for (Group& group : cluster.groups) {
    change(group.link);
    for (Between& between : group.between) {
      change(between.link);
    }
  }
}

int64_t times_count(
    int64_t count, const ClusterChange& change, const std::string& of) {
  const double wanted = static_cast<double>(count) * change.times;
  WEFT_CHECK_USER(
      wanted >= 1 && wanted == std::floor(wanted) && wanted <= kMostMeshRanks,
      print(change),
      " of ",
      count,
      " in each ",
      of,
      " is ",
      print_double(wanted),
      "; take a factor that gives a whole number");
  return static_cast<int64_t>(wanted);
}

void change_count(Group& group, const ClusterChange& change) {
  group.count = times_count(group.count, change, group.name);
  for (Member& member : group.others) {
    member.count = times_count(member.count, change, group.name);
  }
}

void change_devices(Cluster& cluster, const ClusterChange& change) {
  WEFT_CHECK_USER(
      !cluster.groups.empty(),
      "cluster @",
      cluster.name,
      " is one device, and has no link for more: add a group to its file");
  change_count(cluster.groups.front(), change);
  // The way out of a group stays as wide, and more devices share it.
  for (size_t i = 1; i < cluster.groups.size(); ++i) {
    Link& link = cluster.groups[i].link;
    if (link.devices_per_link > 1) {
      link.devices_per_link = times_count(
          link.devices_per_link,
          change,
          cat("link of ", cluster.groups[i].name));
    }
  }
}

void change_nodes(Cluster& cluster, const ClusterChange& change) {
  WEFT_CHECK_USER(
      cluster.groups.size() > 1,
      "cluster @",
      cluster.name,
      " is a single node: nothing says what would join it to others. Take a "
      "name with its nodes, as in 1x8xA100-80G, add a group to its file, or "
      "change devices");
  change_count(cluster.groups.back(), change);
}

}  // namespace

std::string_view name(ClusterFigure figure) {
  switch (figure) {
    case ClusterFigure::Bandwidth:
      return "bandwidth";
    case ClusterFigure::Latency:
      return "latency";
    case ClusterFigure::Flops:
      return "flops";
    case ClusterFigure::Memory:
      return "memory";
    case ClusterFigure::MemoryRate:
      return "memory-rate";
    case ClusterFigure::Devices:
      return "devices";
    case ClusterFigure::Nodes:
      return "nodes";
  }
  WEFT_CHECK(false, "unknown figure");
}

std::string print(const ClusterChange& change) {
  // As short as it is read: 2x, not 2.0x.
  char text[32];
  const auto [end, error] =
      std::to_chars(std::begin(text), std::end(text), change.times);
  WEFT_CHECK(error == std::errc());
  return cat(
      name(change.figure),
      "=",
      std::string_view(text, static_cast<size_t>(end - text)),
      "x");
}

std::string print(const std::vector<ClusterChange>& changes) {
  std::vector<std::string> words;
  for (const ClusterChange& change : changes) {
    words.push_back(print(change));
  }
  return join(words, ",");
}

std::vector<ClusterChange> parse_cluster_changes(std::string_view text) {
  std::vector<ClusterChange> changes;
  for (const std::string& word : split(text, ',')) {
    changes.push_back(parse_change(word));
  }
  return changes;
}

Cluster changed(Cluster cluster, const ClusterChange& change) {
  const double times = change.times;
  switch (change.figure) {
    case ClusterFigure::Bandwidth:
      each_link(cluster, [&](Link& link) { link.bytes_per_second *= times; });
      break;
    case ClusterFigure::Latency:
      each_link(cluster, [&](Link& link) {
        link.latency_seconds *= times;
        link.start_seconds *= times;
      });
      break;
    case ClusterFigure::Flops:
      each_device(cluster, [&](Device& device) {
        for (Rate& rate : device.rates) {
          rate.flops_per_second *= times;
        }
      });
      break;
    case ClusterFigure::Memory:
      each_device(cluster, [&](Device& device) {
        const double wanted = static_cast<double>(device.memory_bytes) * times;
        const std::optional<int64_t> bytes = to_integer(wanted);
        WEFT_CHECK_USER(
            bytes && *bytes > 0,
            print(change),
            " of ",
            device.memory_bytes,
            " bytes is ",
            print_double(wanted),
            "; take a factor that gives memory a machine can have");
        device.memory_bytes = *bytes;
      });
      break;
    case ClusterFigure::MemoryRate:
      each_device(cluster, [&](Device& device) {
        device.memory_bytes_per_second *= times;
      });
      break;
    case ClusterFigure::Devices:
      change_devices(cluster, change);
      break;
    case ClusterFigure::Nodes:
      change_nodes(cluster, change);
      break;
  }
  verify(cluster);
  return cluster;
}

Cluster changed(Cluster cluster, const std::vector<ClusterChange>& changes) {
  for (const ClusterChange& change : changes) {
    cluster = changed(std::move(cluster), change);
  }
  return cluster;
}

}  // namespace weft
