// SPDX-License-Identifier: Apache-2.0
// Steps and machines for tests of the search.
#pragma once

#include "base/text.h"
#include "cluster/cluster.h"
#include "graph/graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// A chain of layers, each two products around a gelu, added to what came in;
// trained by plain descent. `hiddens`: by layer, what its first product makes.
inline Graph chain_step(
    const std::vector<int64_t>& hiddens, int64_t rows, int64_t width) {
  const auto layers = static_cast<int64_t>(hiddens.size());
  const std::string x = cat("f32[", rows, ", ", width, "]");
  const auto turned = [](int64_t a, int64_t b) {
    return cat("f32[", a, ", ", b, "]{1, ", a, "}");
  };
  std::string inputs = cat("  input %batch.0 : ", x, " = batch \"0\"\n");
  std::string forward;
  std::string backward;
  std::string updates;
  std::string outputs = "  return loss = %loss\n";
  std::string before = "batch.0";
  for (int64_t i = 0; i < layers; ++i) {
    const std::string l = cat("l.", i);
    const int64_t hidden = hiddens[static_cast<size_t>(i)];
    const std::string h = cat("f32[", rows, ", ", hidden, "]");
    const std::string up = cat("f32[", hidden, ", ", width, "]");
    const std::string down = cat("f32[", width, ", ", hidden, "]");
    for (const auto& [name, type] :
         {std::pair{".up", up}, std::pair{".down", down}}) {
      inputs +=
          cat("  input %",
              l,
              name,
              " : ",
              type,
              " = parameter \"",
              l,
              name,
              "\" trained\n");
      updates +=
          cat("  %",
              l,
              name,
              ".1 = weft.sgd(%",
              l,
              name,
              ", %",
              l,
              "/d",
              name,
              ", %lr.0) : ",
              type,
              "\n");
      outputs +=
          cat("  return parameter \"", l, name, "\" = %", l, name, ".1\n");
    }
    forward +=
        cat("  %",
            l,
            "/t = aten.t(%",
            l,
            ".up) : ",
            turned(width, hidden),
            "\n",
            "  %",
            l,
            "/mm = aten.mm(%",
            before,
            ", %",
            l,
            "/t) : ",
            h,
            "\n",
            "  %",
            l,
            "/gelu = aten.gelu(%",
            l,
            "/mm) : ",
            h,
            "\n",
            "  %",
            l,
            "/t.1 = aten.t(%",
            l,
            ".down) : ",
            turned(hidden, width),
            "\n",
            "  %",
            l,
            "/mm.1 = aten.mm(%",
            l,
            "/gelu, %",
            l,
            "/t.1) : ",
            x,
            "\n",
            "  %",
            l,
            "/add = aten.add.Tensor(%",
            before,
            ", %",
            l,
            "/mm.1) : ",
            x,
            "\n");
    const std::string after =
        i + 1 == layers ? "seed.1" : cat("l.", i + 1, "/dx");
    backward = cat("  %",
                   l,
                   "/gelu.t = aten.t(%",
                   l,
                   "/gelu) : ",
                   turned(hidden, rows),
                   "\n",
                   "  %",
                   l,
                   "/d.down.t = aten.mm(%",
                   l,
                   "/gelu.t, %",
                   after,
                   ") : f32[",
                   hidden,
                   ", ",
                   width,
                   "]\n",
                   "  %",
                   l,
                   "/d.down = aten.t(%",
                   l,
                   "/d.down.t) : ",
                   turned(width, hidden),
                   "\n",
                   "  %",
                   l,
                   "/dh = aten.mm(%",
                   after,
                   ", %",
                   l,
                   ".down) : ",
                   h,
                   "\n",
                   "  %",
                   l,
                   "/dg = aten.gelu_backward(%",
                   l,
                   "/dh, %",
                   l,
                   "/mm) : ",
                   h,
                   "\n",
                   "  %",
                   l,
                   "/x.t = aten.t(%",
                   before,
                   ") : ",
                   turned(width, rows),
                   "\n",
                   "  %",
                   l,
                   "/d.up.t = aten.mm(%",
                   l,
                   "/x.t, %",
                   l,
                   "/dg) : f32[",
                   width,
                   ", ",
                   hidden,
                   "]\n",
                   "  %",
                   l,
                   "/d.up = aten.t(%",
                   l,
                   "/d.up.t) : ",
                   turned(hidden, width),
                   "\n",
                   "  %",
                   l,
                   "/dy = aten.mm(%",
                   l,
                   "/dg, %",
                   l,
                   ".up) : ",
                   x,
                   "\n",
                   "  %",
                   l,
                   "/dx = aten.add.Tensor(%",
                   after,
                   ", %",
                   l,
                   "/dy) : ",
                   x,
                   "\n") +
               backward;
    before = cat(l, "/add");
  }
  return parse_graph(
      cat("graph @chain\n\nfunc @step {\n",
          inputs,
          "  input %lr.0 : f64[] = scalar \"lr.0\"\n",
          "forward:\n",
          forward,
          "  %end/square = aten.mul.Tensor(%",
          before,
          ", %",
          before,
          ") : ",
          x,
          "\n",
          "  %loss = aten.sum(%end/square) : f32[]\n",
          "backward:\n",
          "  %ones = aten.ones_like(%loss) : f32[]\n",
          "  %seed = aten.expand(%ones, [",
          rows,
          ", ",
          width,
          "]) : f32[",
          rows,
          ", ",
          width,
          "]{0, 0}\n",
          "  %seed.1 = aten.mul.Tensor(%seed, %",
          before,
          ") : ",
          x,
          "\n",
          backward,
          "optimizer:\n",
          updates,
          outputs,
          "}\n"),
      "chain");
}

inline Graph chain_step(
    int64_t layers, int64_t rows, int64_t width, int64_t hidden) {
  return chain_step(
      std::vector<int64_t>(static_cast<size_t>(layers), hidden), rows, width);
}

inline Cluster test_cluster(
    int64_t devices,
    double flops_per_second,
    double link_bytes_per_second,
    int64_t memory_bytes = int64_t{1} << 40) {
  return parse_cluster(
      cat("cluster @box\ndevice core\n  flops_per_second f32 = ",
          print_double(flops_per_second),
          "\n  memory_bytes = ",
          memory_bytes,
          "\n  memory_bytes_per_second = 1e10\n  call_seconds = 1e-06\n"
          "group node = ",
          devices,
          " x core\n  latency_seconds = 2e-06\n  bytes_per_second = ",
          print_double(link_bytes_per_second),
          "\n"),
      "box");
}

}  // namespace weft
