// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "base/text.h"
#include "profile/profile_print.h"

#include <ctime>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

namespace weft {
namespace {

// Two linear layers, the second tied to the first; a batch of 4 rows of 8.
// Bytes: x 4*8*4 = 128; w 8*8*4 = 256; h, a, y, dy, da, dh 128 each;
// loss and ones 4; dw, dw2, dw1 256 each; state 256; lr 4.
constexpr const char* kTied = R"(
graph @tied
module "one" Linear
module "two" Linear
func @step {
  input %x : f32[4, 8] = batch "0"
  input %w : f32[8, 8] = parameter "one.weight" "two.weight" trained
  input %m : f32[8, 8] = state "one.weight.momentum_buffer"
  input %lr : f32[] = scalar "lr"
forward:
  %one/h = aten.mm(%x, %w) : f32[4, 8]
  %a = aten.relu(%one/h) : f32[4, 8] release(%one/h)
  %two/y = aten.mm(%a, %w) : f32[4, 8]
  %loss = aten.sum(%two/y) : f32[] release(%two/y)
backward:
  %ones = aten.ones_like(%loss) : f32[]
  %dy = aten.expand(%ones, [4, 8]) : f32[4, 8]{0, 0}
  %two/at = aten.t(%a) : f32[8, 4]{1, 8}
  %two/dw = aten.mm(%two/at, %dy) : f32[8, 8]
  %two/wt = aten.t(%w) : f32[8, 8]{1, 8}
  %two/da = aten.mm(%dy, %two/wt) : f32[4, 8] release(%ones)
  %dh = aten.threshold_backward(%two/da, %a, 0) : f32[4, 8] release(%a, %two/da)
  %one/xt = aten.t(%x) : f32[8, 4]{1, 8}
  %one/dw = aten.mm(%one/xt, %dh) : f32[8, 8] release(%dh)
  %one/dw.1 = aten.add.Tensor(%two/dw, %one/dw) : f32[8, 8] release(%two/dw, %one/dw)
optimizer:
  %w.1, %m.1 = weft.sgd(%w, %one/dw.1, %m, %lr, momentum=0.9) : f32[8, 8], f32[8, 8]
  return loss = %loss
  return gradient "one.weight" = %one/dw.1
  return parameter "one.weight" = %w.1
  return state "one.weight.momentum_buffer" = %m.1
}
)";

const ModuleCosts& module(const Profile& profile, std::string_view path) {
  for (const ModuleCosts& each : profile.modules) {
    if (each.path == path) {
      return each;
    }
  }
  throw std::runtime_error(cat("no module ", path));
}

TEST(Profile, CountsTiedParametersOnce) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  EXPECT_EQ(found.model, "tied");
  EXPECT_EQ(found.whole.parameters, 64);
  EXPECT_EQ(found.trained_parameters, 64);
  EXPECT_EQ(module(found, "one").costs.parameters, 64);
  EXPECT_EQ(module(found, "two").costs.parameters, 0);
  EXPECT_EQ(module(found, "one").type, "Linear");
}

TEST(Profile, FlopsByPhase) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  const PhaseFlops& flops = found.whole.flops;
  // Each mm 2 * 4 * 8 * 8 = 512; relu and sum 32 elements.
  EXPECT_EQ(flops.forward, 512 + 32 + 512 + 32);
  // Three mm, threshold_backward 32, ones_like 1, add 64; views nothing.
  EXPECT_GE(flops.backward, 3 * 512 + 32 + 64);
  EXPECT_LE(flops.backward, 3 * 512 + 2 * 32 + 2 * 64 + 1);
  EXPECT_EQ(flops.recompute, 0);
  EXPECT_GT(flops.optimizer, 0);
  EXPECT_EQ(module(found, "one").costs.flops.forward, 512);
  EXPECT_EQ(module(found, "two").costs.flops.backward, 2 * 512);
}

TEST(Profile, BytesByKind) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  const KindBytes& bytes = found.whole.bytes;
  EXPECT_EQ(bytes.parameters, 256);
  EXPECT_EQ(bytes.gradients, 256);
  EXPECT_EQ(bytes.optimizer_state, 256);
  EXPECT_EQ(bytes.buffers, 0);
  EXPECT_EQ(bytes.inputs, 128 + 4);
  // a, and the loss, which is never given back.
  EXPECT_EQ(bytes.activations, 128 + 4);
  EXPECT_EQ(module(found, "one").costs.bytes.gradients, 256);
  EXPECT_EQ(module(found, "one").costs.bytes.optimizer_state, 256);
  // Made by no module: a and the loss.
  EXPECT_EQ(module(found, "one").costs.bytes.activations, 0);
}

TEST(Profile, PeakAndWhatIsAliveThen) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  const int64_t always = 128 + 256 + 256 + 4;  // x w m lr
  // loss, and the three weight gradients while they are added.
  EXPECT_EQ(found.peak.bytes, always + 4 + 256 + 256 + 256);
  EXPECT_EQ(found.peak.name, "one/dw.1");
  EXPECT_EQ(found.peak.op, "aten.add.Tensor");
  EXPECT_EQ(found.peak.phase, Phase::Backward);
  const auto alive = [&](StorageKind kind) {
    return found.peak.alive_bytes[static_cast<size_t>(kind)];
  };
  EXPECT_EQ(alive(StorageKind::Gradient), 256);
  EXPECT_EQ(alive(StorageKind::Temporary), 512);
  EXPECT_EQ(alive(StorageKind::Activation), 4);
  EXPECT_EQ(found.peak.scratch_bytes, 0);
  ASSERT_FALSE(found.peak.largest.empty());
  EXPECT_EQ(found.peak.largest[0].name, "w");
  EXPECT_EQ(found.peak.largest[0].bytes, 256);
  // The most temporaries at once: dh and the two parts of the gradient.
  EXPECT_EQ(found.whole.bytes.temporaries, 256 + 128 + 256);
}

TEST(Profile, BytesMoved) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  // mm reads x 128 and w 256, and writes h 128.
  EXPECT_EQ(found.nodes[0].read_bytes, 128 + 256);
  EXPECT_EQ(found.nodes[0].written_bytes, 128);
  // A view moves nothing; an expanded operand is the 4 bytes it lies in.
  EXPECT_EQ(found.nodes[5].read_bytes + found.nodes[5].written_bytes, 0);
  EXPECT_EQ(found.nodes[7].read_bytes, 128 + 4);
  EXPECT_EQ(found.nodes[7].written_bytes, 256);
  int64_t moved = 0;
  for (const NodeCosts& node : found.nodes) {
    moved += node.read_bytes + node.written_bytes;
  }
  EXPECT_EQ(found.whole.moved_bytes, moved);
  EXPECT_DOUBLE_EQ(
      arithmetic_intensity(found.whole),
      static_cast<double>(total(found.whole.flops)) /
          static_cast<double>(moved));
}

TEST(Profile, KindsOfWork) {
  const Profile found = profile(parse_graph(
      R"(
graph @kinds
func @step {
  input %q : f32[2, 3, 128, 64] = batch "0"
  input %a : f32[6, 16, 32] = batch "1"
  input %b : f32[6, 32, 64] = batch "2"
forward:
  %o, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %q, %q, 0.0, true) : f32[2, 3, 128, 64], f32[2, 3, 128]{384, 1, 3}
  %p = aten.bmm(%a, %b) : f32[6, 16, 64]
  %g = aten.gelu(%p) : f32[6, 16, 64]
  %t = aten.gelu(%p, approximate="tanh") : f32[6, 16, 64]
  %v = aten.view(%t, [96, 64]) : f32[96, 64]
  return extra "0" = %v
}
)",
      "<test>"));
  const NodeCosts& attention = found.nodes[0];
  EXPECT_EQ(attention.work, Work::Attention);
  EXPECT_EQ(attention.parts, 6);
  // Blocks of 32 queries see 32, 64, 96 and 128 keys of 128.
  EXPECT_EQ(attention.hidden_flops * 16, attention.flops * 6);
  EXPECT_EQ(found.nodes[1].work, Work::Product);
  EXPECT_EQ(found.nodes[1].parts, 6);
  EXPECT_EQ(found.nodes[2].work, Work::Exponential);
  EXPECT_EQ(found.nodes[2].functions, 6 * 16 * 64);
  EXPECT_EQ(found.nodes[3].work, Work::Tangent);
  EXPECT_TRUE(found.nodes[4].is_free);
  EXPECT_FALSE(found.nodes[3].is_free);
}

TEST(Profile, PartsAddUp) {
  const Profile found = profile(parse_graph(kTied, "<test>"));
  int64_t nodes_by_op = 0;
  int64_t flops_by_op = 0;
  for (const OpCosts& op : found.ops) {
    nodes_by_op += op.costs.nodes;
    flops_by_op += total(op.costs.flops);
  }
  EXPECT_EQ(nodes_by_op, found.whole.nodes);
  EXPECT_EQ(flops_by_op, total(found.whole.flops));
  int64_t flops_by_phase = 0;
  int64_t peak = 0;
  for (const PhaseCosts& phase : found.phases) {
    flops_by_phase += total(phase.costs.flops);
    peak = std::max(peak, phase.peak_bytes);
  }
  EXPECT_EQ(found.phases.size(), 3u);
  EXPECT_EQ(flops_by_phase, total(found.whole.flops));
  EXPECT_EQ(peak, found.peak.bytes);
}

TEST(Profile, ALookedUpTableIsNotReadWhole) {
  const Profile found = profile(parse_graph(
      R"(
graph @lookup
func @step {
  input %table : f32[1000, 8] = parameter "table.weight" trained
  input %index : i64[4] = batch "0"
forward:
  %rows = aten.embedding(%table, %index) : f32[4, 8]
  %odd = my.own_op(%rows) : f32[4, 8]
  return extra "0" = %odd
}
)",
      "<test>"));
  // 4 rows of 8 numbers, and the 4 indices.
  EXPECT_EQ(found.nodes[0].read_bytes, 128 + 32);
  ASSERT_EQ(found.ops.size(), 2u);
  for (const OpCosts& op : found.ops) {
    EXPECT_EQ(op.is_unruled, op.op == "my.own_op");
  }
  const nlohmann::json json = to_json(found);
  EXPECT_EQ(
      json["unruled_ops"],
      nlohmann::json::parse(R"([{"op": "my.own_op", "count": 1}])"));
}

TEST(Profile, JsonHasTheKeys) {
  Profile found = profile(parse_graph(kTied, "<test>"));
  found.capture_seconds = 0.5;
  const nlohmann::json json = to_json(found);
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.insert(key);
  }
  EXPECT_EQ(
      keys,
      (std::set<std::string>{
          "model",
          "parameters",
          "trained_parameters",
          "nodes",
          "flops",
          "bytes",
          "moved_bytes",
          "peak_bytes",
          "peak",
          "arithmetic_intensity",
          "layer_classes",
          "unruled_ops",
          "capture_seconds",
          "build_seconds",
          "profile_seconds",
          "modules",
          "ops",
          "phases",
      }));
  EXPECT_EQ(json["parameters"], 64);
  EXPECT_EQ(json["peak_bytes"], found.peak.bytes);
  EXPECT_EQ(json["peak"]["alive"]["optimizer_state"], 256);
  EXPECT_EQ(json["peak"]["largest"][0]["kind"], "parameters");
  EXPECT_EQ(json["capture_seconds"], 0.5);
  EXPECT_TRUE(json["build_seconds"].is_null());
  EXPECT_EQ(json["modules"][0]["path"], "");
  EXPECT_EQ(json["modules"][1]["path"], "one");
}

TEST(Profile, OfAnEmptyStep) {
  const Profile found =
      profile(parse_graph("graph @none func @step { }", "<test>"));
  EXPECT_EQ(found.peak.bytes, 0);
  EXPECT_EQ(found.peak.node, NodeId::None);
  EXPECT_FALSE(print(found).empty());
}

// A step with what a GPT's has: layers of 40 forward and 60 backward nodes.
Graph deep_graph(int layers) {
  std::string inputs = "  input %x : f32[64, 64] = batch \"0\"\n";
  std::string forward;
  std::string backward;
  std::string before = "x";
  const auto node = [](const std::string& name, const std::string& call) {
    return cat("  %", name, " = aten.", call, " : f32[64, 64]\n");
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::string path = cat("blocks.", layer);
    const std::string weight = path + ".linear.weight";
    inputs +=
        cat("  input %",
            weight,
            " : f32[64, 64] = parameter \"",
            weight,
            "\" trained\n");
    std::string x = before;
    for (int i = 0; i < 40; ++i) {
      const std::string next = cat(path, i < 20 ? ".linear/f" : "/f", i);
      forward += i == 0
                     ? node(next, cat("mm(%", x, ", %", weight, ")"))
                     : node(next, cat("add.Tensor(%", x, ", %", before, ")"));
      x = next;
    }
    for (int i = 0; i < 60; ++i) {
      backward +=
          node(cat(path, "/b", i), cat("mul.Tensor(%", x, ", %", weight, ")"));
    }
    before = x;
  }
  return parse_graph(
      cat("graph @deep\nfunc @step {\n",
          inputs,
          "forward:\n",
          forward,
          "backward:\n",
          backward,
          "}\n"),
      "<test>");
}

TEST(Profile, OfThirtyThousandNodesIsFast) {
  const Graph graph = deep_graph(300);
  const std::clock_t start = std::clock();
  const Profile found = profile(graph);
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(found.whole.nodes, 30000);
  ASSERT_FALSE(found.layer_classes.empty());
  EXPECT_EQ(found.layer_classes[0].name, "blocks.{0..299}");
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  EXPECT_LT(seconds, 0.5);  // 0.03 s; the rest is for slow machines
}

}  // namespace
}  // namespace weft
