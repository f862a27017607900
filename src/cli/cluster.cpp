// SPDX-License-Identifier: Apache-2.0
// weft cluster: what machines there are, or could be.
#include "cluster/cluster.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/measure.h"
#include "cli/measured_cluster.h"
#include "cli/number_flags.h"
#include "cli/rank_flags.h"
#include "cli/terminal.h"
#include "execute/rank_room.h"
#include "graph/most_ranks.h"
#include "profile/text_table.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>

namespace weft {
namespace {

constexpr int64_t kMostRounds = 1'000;

std::string rate_text(double per_second, std::string_view unit) {
  return cat(human_count(per_second), unit, "/s");
}

std::string time_text(double seconds) {
  return seconds == 0     ? "-"
         : seconds < 1e-3 ? cat(decimals(1e6 * seconds, 1), " us")
                          : cat(decimals(1e3 * seconds, 1), " ms");
}

// "9.8 M: 52 %, 2.1 G: 91 %", the smallest and the largest size.
std::string curve_text(const Efficiency& curve) {
  std::vector<std::string> points;
  for (const auto* point : {&curve.points.front(), &curve.points.back()}) {
    points.push_back(
        cat(human_count(point->first), ": ", percent(point->second)));
  }
  if (curve.points.size() == 1) {
    points = {percent(curve.points.front().second)};
  }
  return join(points, "  to  ");
}

std::string device_text(const Device& device, const TextStyle& style) {
  TextTable table;
  table.column("", Align::Left).column("", Align::Left);
  for (const Rate& rate : device.rates) {
    table.row(
        {cat(name(rate.dtype)), rate_text(rate.flops_per_second, "flop")});
  }
  table.row({"memory", human_bytes(static_cast<double>(device.memory_bytes))});
  table.row({"memory rate", rate_text(device.memory_bytes_per_second, "B")});
  table.row({"a call", time_text(device.call_seconds)});
  if (device.launch_seconds > 0) {
    table.row(
        {"issuing a call",
         cat(time_text(device.launch_seconds),
             ", up to ",
             device.run_ahead_calls,
             " ahead")});
  }
  if (device.price_per_hour > 0) {
    table.row({"price", cat(decimals(device.price_per_hour, 2), " an hour")});
  }
  if (!device.tiles.empty()) {
    table.row(
        {"products",
         cat(device.units,
             " units, tiles of ",
             device.tiles.front().rows,
             " x ",
             device.tiles.front().columns,
             " at ",
             percent(device.tiles.front().efficiency),
             " and smaller")});
  }
  for (const Efficiency& curve : device.efficiencies) {
    table.row({cat("of the rate, ", name(curve.work)), curve_text(curve)});
  }
  return cat(bold(device.name, style), "\n", table.print(style, 2));
}

void add_link_row(
    TextTable& table,
    const std::string& what,
    const std::string& made_of,
    const Link& link,
    double read_bytes_per_second = 0) {
  table.row(
      {what,
       made_of,
       rate_text(link.bytes_per_second, "B"),
       read_bytes_per_second > 0 ? rate_text(read_bytes_per_second, "B") : "",
       time_text(link.latency_seconds),
       time_text(link.start_seconds),
       cat(link.devices_per_link),
       link.device_share > 0 ? percent(link.device_share) : "-"});
}

std::string members_text(const Cluster& cluster, size_t number) {
  const Group& group = cluster.groups[number];
  const std::string& before =
      number == 0 ? cluster.device.name : cluster.groups[number - 1].name;
  std::string text =
      cat(group.count, " x ", group.member.empty() ? before : group.member);
  for (const Member& member : group.others) {
    text += cat(" + ", member.count, " x ", member.name);
  }
  return text;
}

void show(const std::string& name, bool as_text, bool ascii) {
  const Cluster cluster = load_cluster(name);
  if (as_text) {
    write_output("-", print(cluster));
    return;
  }
  const TextStyle style = stdout_style(ascii);
  const int64_t devices = device_count(cluster);
  std::string out =
      cat(bold(cat("cluster @", cluster.name), style),
          "  ",
          devices,
          devices == 1 ? " device\n\n" : " devices\n\n",
          device_text(cluster.device, style));
  for (const Device& device : cluster.other_devices) {
    out += device_text(device, style);
  }
  TextTable links;
  links.column("link", Align::Left)
      .column("of", Align::Left)
      .column("rate")
      .column("back")
      .column("latency")
      .column("start")
      .column("shared by")
      .column("of devices");
  for (const MemoryTier& tier : cluster.tiers) {
    add_link_row(
        links,
        tier.name,
        human_bytes(static_cast<double>(tier.memory_bytes)),
        tier.link,
        tier.read_bytes_per_second);
  }
  for (size_t i = 0; i < cluster.groups.size(); ++i) {
    const Group& group = cluster.groups[i];
    add_link_row(links, group.name, members_text(cluster, i), group.link);
    for (const Between& between : group.between) {
      add_link_row(links, "", cat(between.a, " - ", between.b), between.link);
    }
  }
  if (!cluster.tiers.empty() || !cluster.groups.empty()) {
    out += "\n" + links.print(style);
  }
  write_output("-", out);
}

struct MeasureFlags {
  MeasureOptions options;
  std::string output = "-";
  bool keep = false;
  int64_t ranks = std::max<int64_t>(1, std::thread::hardware_concurrency());
};

void measure_rank(const MeasureFlags& flags, const Rendezvous& rendezvous) {
  std::optional<Cluster> cluster;
  {
    ProgressLine line("measuring ...");
    const TextStyle style = stdout_style(false);
    cluster = measure_cluster(
        rendezvous, flags.options, [&](const std::string& what, double share) {
          line.say(
              cat("measuring  [",
                  bar(share, 30, style),
                  "] ",
                  percent(share),
                  "  ",
                  what));
        });
  }
  if (cluster) {
    write_output(flags.output, print(*cluster));
  }
}

void measure(const MeasureFlags& flags) {
  if (const auto rendezvous = rendezvous_from_environment()) {
    measure_rank(flags, *rendezvous);
    return;
  }
  if (flags.ranks == 1) {
    measure_rank(flags, {});
    return;
  }
  verify_room({flags.ranks, "--ranks", flags.options.oversubscribe});
  const int status = start_measuring(flags.ranks, flags.options, flags.output);
  // The rank has said what was wrong.
  if (status != 0) {
    throw CLI::RuntimeError(status);
  }
}

void add_show(CLI::App& app) {
  struct Flags {
    std::string name;
    bool text = false;
    bool ascii = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "show", "Print what a cluster's devices and links are and can do");
  command->add_option("CLUSTER", flags->name, "8x8xH100, or a cluster file")
      ->type_name("")
      ->required();
  command->add_flag(
      "--text", flags->text, "As a cluster file, to be changed and kept");
  command->add_flag("--ascii", flags->ascii, "Plain letters only");
  command->callback([flags] { show(flags->name, flags->text, flags->ascii); });
}

void add_measure(CLI::App& app) {
  const auto flags = std::make_shared<MeasureFlags>();
  flags->options.folder = std::filesystem::temp_directory_path().string();
  CLI::App* command = app.add_subcommand(
      "measure", "Measure this machine, into a cluster file");
  command->add_option("-o,--output", flags->output, "- for the output")
      ->type_name("FILE");
  command
      ->add_option(
          "--ranks",
          flags->ranks,
          "Processes at a time, a core each; without, one for every core")
      ->type_name("N")
      ->transform(whole_number({1, kMostMeshRanks}));
  command
      ->add_option(
          "--threads", flags->options.threads, "Threads inside one operator")
      ->type_name("N")
      ->transform(whole_number(kThreads));
  command->add_option("--disk", flags->options.folder, "The disk that has it")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  command
      ->add_option(
          "--rounds",
          flags->options.rounds,
          "Every figure is that of the fastest of so many")
      ->type_name("N")
      ->transform(whole_number({1, kMostRounds}));
  add_oversubscribe_flag(*command, flags->options.oversubscribe);
  command
      ->add_flag(
          "--keep",
          flags->keep,
          "Into the file by which weft train finds its plans, in place of "
          "what is there")
      ->excludes("--output");
  command->callback([flags] {
    if (flags->keep) {
      const std::optional<std::string> kept =
          measured_cluster_path(flags->ranks, flags->options.threads);
      WEFT_CHECK_USER(
          kept,
          "--keep: neither HOME nor XDG_CACHE_HOME is set, so there is "
          "no folder of yours to keep it in");
      make_cache_folder(*kept);
      flags->output = *kept;
      std::cerr << "weft: into " << flags->output << "\n";
    }
    measure(*flags);
  });
}

}  // namespace

void add_cluster_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("cluster", "Show machines, or measure this one");
  command->group(kStepGroup);
  command->require_subcommand(1);
  add_show(*command);
  add_measure(*command);
  command->footer(
      R"(A name is NODESxDEVICESxKIND or DEVICESxKIND; +4xHDR names a node's adapters.
docs/cluster.md has the kinds and the file's form.

Examples:
  weft cluster show 8x8xH100
  weft cluster show 128x8xA100-80G+4xHDR --text > pod.cluster
  weft cluster measure -o this.cluster)");
}

}  // namespace weft
