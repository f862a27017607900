// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/text.h"
#include "cluster/cluster.h"

#include <string>

namespace weft {

std::string print(const Cluster& cluster) {
  const Device& device = cluster.device;
  std::string out = cat("cluster @", cluster.name, "\n");
  out += cat("device ", device.name, "\n");
  for (const Rate& rate : device.rates) {
    out +=
        cat("  flops_per_second ",
            name(rate.dtype),
            " = ",
            print_double(rate.flops_per_second),
            "\n");
  }
  out += cat("  memory_bytes = ", device.memory_bytes, "\n");
  out +=
      cat("  memory_bytes_per_second = ",
          print_double(device.memory_bytes_per_second),
          "\n");
  out += cat("  call_seconds = ", print_double(device.call_seconds), "\n");
  const std::string* member = &device.name;
  for (const Group& group : cluster.groups) {
    out += cat("group ", group.name, " = ", group.count, " x ", *member, "\n");
    out += cat(
        "  latency_seconds = ", print_double(group.link.latency_seconds), "\n");
    out +=
        cat("  bytes_per_second = ",
            print_double(group.link.bytes_per_second),
            "\n");
    member = &group.name;
  }
  return out;
}

namespace {

double expect_double(Scanner& scanner) {
  bool is_integer = false;
  int64_t integer = 0;
  return scanner.expect_number(&is_integer, &integer);
}

double expect_field(Scanner& scanner, std::string_view field) {
  scanner.expect(field);
  scanner.expect("=");
  return expect_double(scanner);
}

Rate parse_rate(Scanner& scanner) {
  const size_t mark = scanner.mark();
  const std::string dtype = scanner.expect_word();
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!known) {
    scanner.fail_at(mark, cat("unknown element type ", quote(dtype)));
  }
  scanner.expect("=");
  return {*known, expect_double(scanner)};
}

Device parse_device(Scanner& scanner) {
  Device device;
  scanner.expect("device");
  device.name = scanner.expect_word();
  while (scanner.take("flops_per_second")) {
    device.rates.push_back(parse_rate(scanner));
  }
  scanner.expect("memory_bytes");
  scanner.expect("=");
  device.memory_bytes = scanner.expect_int();
  device.memory_bytes_per_second =
      expect_field(scanner, "memory_bytes_per_second");
  device.call_seconds = expect_field(scanner, "call_seconds");
  return device;
}

Group parse_group(Scanner& scanner, const std::string& member) {
  Group group;
  group.name = scanner.expect_word();
  scanner.expect("=");
  group.count = scanner.expect_int();
  scanner.expect("x");
  const size_t mark = scanner.mark();
  const std::string of = scanner.expect_word();
  if (of != member) {
    scanner.fail_at(
        mark,
        cat("group ",
            group.name,
            " must be made of ",
            member,
            ", which stands just before it, not of ",
            of));
  }
  group.link.latency_seconds = expect_field(scanner, "latency_seconds");
  group.link.bytes_per_second = expect_field(scanner, "bytes_per_second");
  return group;
}

}  // namespace

Cluster parse_cluster(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  Cluster cluster;
  scanner.expect("cluster");
  scanner.expect("@");
  cluster.name = scanner.expect_word();
  cluster.device = parse_device(scanner);
  while (scanner.take("group")) {
    const std::string& member = cluster.groups.empty()
                                    ? cluster.device.name
                                    : cluster.groups.back().name;
    cluster.groups.push_back(parse_group(scanner, member));
  }
  if (!scanner.at_end()) {
    scanner.fail_expected("'group' or the end");
  }
  verify(cluster);
  return cluster;
}

}  // namespace weft
