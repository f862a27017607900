// SPDX-License-Identifier: Apache-2.0
#include "profile/layer_classes.h"

#include "base/text.h"
#include "ops/op_def.h"
#include "profile/signatures.h"

#include <ctime>
#include <gtest/gtest.h>

namespace weft {
namespace {

// Writes the text of a graph whose values are all f32[8, 8], some transposed.
// Module names come from the test, so that they can lie.
class Writer {
 public:
  std::string input(const std::string& kind, const std::string& name) {
    inputs_ +=
        cat("  input %",
            name,
            " : f32[8, 8] = ",
            kind,
            " \"",
            name,
            kind == "parameter" ? "\" trained\n" : "\"\n");
    return name;
  }
  std::string parameter(const std::string& name) {
    return input("parameter", name);
  }
  // Names come and go without their '%'.
  std::string node(
      const std::string& module,
      const std::string& op,
      const std::vector<std::string>& operands,
      const std::string& options = "") {
    const std::string name = cat(module, module.empty() ? "v" : "/v", count_++);
    std::vector<std::string> values;
    for (const std::string& operand : operands) {
      values.push_back("%" + operand);
    }
    nodes_ +=
        cat("  %",
            name,
            " = ",
            op,
            "(",
            join(values, ", "),
            options,
            ") : f32[8, 8]",
            op == "aten.t" ? "{1, 8}\n" : "\n");
    return name;
  }
  // t, mm, relu with a weight of its own: 3 nodes, 64 parameters.
  std::string linear(const std::string& module, const std::string& x) {
    const std::string weight = parameter(cat("w", count_));
    const std::string t = node(module, "aten.t", {weight});
    return node(module, "aten.relu", {node(module, "aten.mm", {x, t})});
  }
  // x + relu(relu(x w1) w2): 7 nodes, 128 parameters.
  std::string block(const std::string& module, const std::string& x) {
    const std::string inner = linear(module + ".a", x);
    return node(module, "aten.add.Tensor", {x, linear(module + ".b", inner)});
  }

  Graph graph() const {
    return parse_graph(
        cat("graph @g\nfunc @step {\n", inputs_, "forward:\n", nodes_, "}\n"),
        "<test>");
  }

  std::vector<LayerClass> classes() const { return classes_of(graph()); }

  static std::vector<LayerClass> classes_of(const Graph& graph) {
    const Function& step = step_of(graph);
    std::vector<int64_t> flops;
    for (const Node& each : step.nodes) {
      flops.push_back(flops_of(step, each));
    }
    return layer_classes(step, lifetimes(step), signatures(step), flops);
  }

 private:
  std::string inputs_;
  std::string nodes_;
  int count_ = 0;
};

TEST(LayerClasses, OfAChain) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 4; ++i) {
    x = writer.linear(cat("net.", i), x);
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "net.{0..3}");
  EXPECT_EQ(classes[0].count, 4);
  EXPECT_EQ(classes[0].nodes, 3);
  EXPECT_EQ(classes[0].parameters, 64);
  // mm 2 * 8 * 8 * 8 = 1024, relu 64; the transpose costs nothing.
  EXPECT_EQ(classes[0].forward_flops, 1024 + 64);
  ASSERT_EQ(classes[0].copies.size(), 4u);
  EXPECT_EQ(classes[0].copies[2].first, static_cast<NodeId>(6));
  EXPECT_EQ(classes[0].copies[2].last, static_cast<NodeId>(8));
}

TEST(LayerClasses, NamesDoNotMatter) {
  // Equal layers under names that say nothing, or the same; the last carries a
  // name that continues the pattern but does something else.
  Writer writer;
  std::string x = writer.input("batch", "x");
  x = writer.block("stem", x);
  x = writer.block("head.7", x);
  x = writer.block("stem", x);
  x = writer.node("stem", "aten.gelu", {writer.linear("stem.a", x)});
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].nodes, 7);
  EXPECT_EQ(classes[0].name, "from %stem.a/v0");
  // Inside a block, relu(x w) twice.
  EXPECT_EQ(classes[1].parent, 0);
  EXPECT_EQ(classes[1].count, 2);
  EXPECT_EQ(classes[1].name, "stem.{a,b}");
}

TEST(LayerClasses, ADifferentAttributeMakesADifferentLayer) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 4; ++i) {
    const std::string option = i == 2 ? ", approximate=\"tanh\"" : "";
    x = writer.linear(cat("layers.", i), x);
    x = writer.node(cat("layers.", i), "aten.gelu", {x}, option);
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "layers.{0,1}");
  EXPECT_EQ(classes[0].count, 2);
  EXPECT_EQ(classes[0].nodes, 4);
}

TEST(LayerClasses, RandomStreamsAreNoDifference) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 3; ++i) {
    x = writer.linear(cat("layers.", i), x);
    x = writer.node(
        cat("layers.", i), "aten.bernoulli.p", {x}, cat(", 0.5, rng=", i));
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].count, 3);
}

TEST(LayerClasses, TheFirstMayTakeItsInputFromFarAway) {
  // Nodes stand between the embedding and layer 0, which reads it twice; the
  // others read the layer just before. All read the mask that they share.
  Writer writer;
  const std::string batch = writer.input("batch", "x");
  std::string x = writer.node("embed", "aten.neg", {batch});
  const std::string half = writer.node("mask", "aten.sin", {batch});
  const std::string mask = writer.node("mask", "aten.cos", {half});
  for (int i = 0; i < 3; ++i) {
    const std::string module = cat("layers.", i);
    const std::string masked =
        writer.node(module, "aten.mul.Tensor", {x, mask});
    x = writer.node(
        module, "aten.add.Tensor", {x, writer.linear(module, masked)});
  }
  writer.node("norm", "aten.mul.Tensor", {x, mask});
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "layers.{0..2}");
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].nodes, 5);
}

TEST(LayerClasses, AViewMayBeMadeOnceForAll) {
  // The first layer transposes the mask; all read what it made.
  Writer writer;
  std::string x = writer.input("batch", "x");
  const std::string mask = writer.input("batch", "mask");
  std::string turned;
  for (int i = 0; i < 3; ++i) {
    const std::string module = cat("layers.", i);
    if (i == 0) {
      turned = writer.node(module, "aten.t", {mask});
    }
    x = writer.node(module, "aten.mul.Tensor", {x, turned});
    x = writer.linear(module, x);
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "layers.{0..2}");
  EXPECT_EQ(classes[0].nodes, 4);
  EXPECT_EQ(classes[0].copies[0].first, static_cast<NodeId>(0));
  EXPECT_EQ(classes[0].copies[0].last, static_cast<NodeId>(4));
  EXPECT_EQ(classes[0].copies[1].first, static_cast<NodeId>(5));
}

TEST(LayerClasses, AnotherViewIsAnotherLayer) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 3; ++i) {
    const std::string w = writer.parameter(cat("w", i));
    const std::string read = i == 1 ? writer.node("", "aten.t", {w}) : w;
    x = writer.node("", "aten.mm", {x, read});
    x = writer.node("", "aten.relu", {x});
  }
  EXPECT_TRUE(writer.classes().empty());
}

TEST(LayerClasses, AnAliasIsNoView) {
  // Each layer makes an alias of the alias before it: the same elements.
  Writer writer;
  std::string x = writer.input("batch", "x");
  std::string table = writer.input("buffer", "table");
  for (int i = 0; i < 3; ++i) {
    table = writer.node("", "aten.alias", {table});
    x = writer.linear("", writer.node("", "aten.mul.Tensor", {x, table}));
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].nodes, 5);
}

TEST(LayerClasses, LayersThatTakeTurns) {
  // Two masks of one type, read in turn: the layer that repeats is the pair.
  Writer writer;
  std::string x = writer.input("batch", "x");
  const std::string near = writer.input("batch", "near");
  const std::string far = writer.input("batch", "far");
  for (int i = 0; i < 6; ++i) {
    const std::string module = cat("layers.", i);
    x = writer.node(module, "aten.mul.Tensor", {x, i % 2 == 0 ? near : far});
    x = writer.linear(module, x);
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].nodes, 8);
  EXPECT_EQ(classes[0].name, "layers.{0..5}");
}

TEST(LayerClasses, EncoderAndDecoder) {
  // The decoder's layers all read what the encoder made.
  Writer writer;
  std::string memory = writer.input("batch", "x");
  for (int i = 0; i < 3; ++i) {
    memory = writer.block(cat("encoder.", i), memory);
  }
  std::string y = writer.input("batch", "y");
  for (int i = 0; i < 4; ++i) {
    const std::string module = cat("decoder.", i);
    const std::string read =
        writer.node(module, "aten.mul.Tensor", {y, memory});
    y = writer.block(module, read);
  }
  std::vector<LayerClass> classes = writer.classes();
  std::erase_if(
      classes, [](const LayerClass& each) { return each.parent >= 0; });
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].name, "encoder.{0..2}");
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].nodes, 7);
  EXPECT_EQ(classes[1].name, "decoder.{0..3}");
  EXPECT_EQ(classes[1].count, 4);
  EXPECT_EQ(classes[1].nodes, 8);
}

TEST(LayerClasses, EqualLayersApartAreOneClass) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  x = writer.block("down.1", writer.block("down.0", x));
  x = writer.node("", "aten.sin", {x});
  x = writer.block("up.1", writer.block("up.0", x));
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_GE(classes.size(), 1u);
  EXPECT_EQ(classes[0].name, "down.{0,1}, up.{0,1}");
  EXPECT_EQ(classes[0].count, 4);
  EXPECT_EQ(classes[0].copies.size(), 4u);
}

TEST(LayerClasses, NestedOnes) {
  // Three projections of the same input in each of two layers.
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 2; ++i) {
    const std::string module = cat("blocks.", i);
    const std::string q = writer.linear(module + ".attention.query", x);
    const std::string k = writer.linear(module + ".attention.key", x);
    const std::string v = writer.linear(module + ".attention.value", x);
    const std::string qk = writer.node(module, "aten.mul.Tensor", {q, k});
    x = writer.node(module, "aten.mul.Tensor", {qk, v});
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].name, "blocks.{0,1}");
  EXPECT_EQ(classes[0].nodes, 11);
  EXPECT_EQ(classes[0].parameters, 192);
  EXPECT_EQ(classes[1].name, "blocks.*.attention.{query,key,value}");
  EXPECT_EQ(classes[1].count, 3);
  EXPECT_EQ(classes[1].parent, 0);
}

TEST(LayerClasses, LayersMayShareTheirParameters) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  const std::string w = writer.parameter("w");
  for (int i = 0; i < 3; ++i) {
    x = writer.node("", "aten.relu", {writer.node("", "aten.mm", {x, w})});
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 1u);
  EXPECT_EQ(classes[0].count, 3);
  EXPECT_EQ(classes[0].parameters, 64);
  EXPECT_EQ(classes[0].name, "from %v0");
}

TEST(LayerClasses, OneParameterTwiceIsNotTwoParameters) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 4; ++i) {
    const std::string first = writer.parameter(cat("first", i));
    const std::string second =
        i < 2 ? first : writer.parameter(cat("second", i));
    x = writer.node("", "aten.mm", {x, first});
    x = writer.node("", "aten.sin", {x});
    x = writer.node("", "aten.mm", {x, second});
    x = writer.node("", "aten.cos", {x});
  }
  const std::vector<LayerClass> classes = writer.classes();
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].count, 2);
  EXPECT_EQ(classes[0].parameters, 64);
  EXPECT_EQ(classes[1].count, 2);
  EXPECT_EQ(classes[1].parameters, 128);
}

TEST(LayerClasses, NothingRepeats) {
  Writer writer;
  const std::string x = writer.input("batch", "x");
  writer.node("", "aten.sin", {writer.linear("a.0", x)});
  EXPECT_TRUE(writer.classes().empty());
}

TEST(LayerClasses, OfAHundredThousandNodesAreFast) {
  Writer writer;
  std::string x = writer.input("batch", "x");
  for (int i = 0; i < 100000 / 14; ++i) {
    x = writer.block(cat("blocks.", i, ".one"), x);
    x = writer.node("", "aten.sin", {x});
    x = writer.linear(cat("blocks.", i, ".two"), x);
    x = writer.linear(cat("blocks.", i, ".two"), x);
  }
  const Graph graph = writer.graph();
  const std::clock_t start = std::clock();
  const std::vector<LayerClass> classes = Writer::classes_of(graph);
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_FALSE(classes.empty());
  EXPECT_EQ(classes[0].count, 100000 / 14);
  EXPECT_EQ(classes[0].nodes, 14);
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  EXPECT_LT(seconds, 2.0);  // 0.2 s; the rest is for slow machines
}

}  // namespace
}  // namespace weft
