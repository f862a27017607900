// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include "base/error.h"
#include "graph/random_graph.h"

#include <chrono>
#include <gtest/gtest.h>
#include <random>

namespace weft {
namespace {

constexpr const char* kMlp = R"(graph @mlp
module "" MLP
module "fc1" Linear
constant %steps : i64[2] = hex "01000000000000000200000000000000"

func @step {
  input %x : f32[32, 512] = batch "0"
  input %fc1.weight : f32[64, 512] = parameter "fc1.weight" "tied.weight" trained
  input %steps : i64[2] = constant "steps"
forward:
  %fc1/t = aten.t(%fc1.weight) : f32[512, 64]{1, 512}
  %fc1/mm = aten.mm(%x, %fc1/t) : f32[32, 64]
  %y, %mask = aten.native_dropout(%fc1/mm, 0.1, true, rng=3) : f32[32, 64], bool[32, 64]
backward:
  %fc1/cat = aten.cat([%fc1/mm, none, %y], 1) : f32[32, 128] overwrites(%fc1/mm) release(%x, %mask)
recompute:
  %z = aten.odd(-3, 1e-05, 2.0, -inf, bf16, channels_last, "q\"\n", [], dim=[1, [2]]) : f32[]
  return loss = %z
  return gradient "fc1.weight" = %fc1/cat
}

func @init {
init:
  %w = aten.randn([64, 512], rng=0) : f32[64, 512]
  return parameter "fc1.weight" = %w
}
)";

Graph parse(std::string_view text) { return parse_graph(text, "t"); }

TEST(Graph, PrintsWhatItParsed) {
  const Graph graph = parse(kMlp);
  verify(graph);
  EXPECT_EQ(print(graph), kMlp);
  EXPECT_EQ(parse(print(graph)), graph);
}

TEST(Graph, ParsesIntoTheFieldsOfTheContract) {
  const Graph graph = parse(kMlp);
  const Function& step = step_of(graph);
  EXPECT_EQ(graph.name, "mlp");
  EXPECT_EQ(graph.modules[1], (Module{"fc1", "Linear"}));
  EXPECT_EQ(graph.constants[0].bytes.size(), 16U);
  ASSERT_EQ(step.inputs.size(), 3U);
  EXPECT_EQ(
      step.inputs[1].keys,
      (std::vector<std::string>{"fc1.weight", "tied.weight"}));
  EXPECT_TRUE(step.inputs[1].trained);
  const Node& dropout = step.nodes[2];
  EXPECT_EQ(dropout.phase, Phase::Forward);
  EXPECT_EQ(dropout.args[1].data, Arg{0.1}.data);
  EXPECT_EQ(dropout.args[2].data, Arg{true}.data);
  EXPECT_EQ(find_option(dropout, kRngOption)->data, Arg{int64_t{3}}.data);
  EXPECT_EQ(find_option(dropout, "dim"), nullptr);
  EXPECT_EQ(step[dropout.results[1]].result, 1);
  EXPECT_EQ(step[dropout.results[1]].node, NodeId{2});
  const Node& cat_node = step.nodes[3];
  EXPECT_EQ(cat_node.phase, Phase::Backward);
  EXPECT_EQ(step[cat_node.overwrites].name, "fc1/mm");
  EXPECT_EQ(cat_node.releases.size(), 2U);
  EXPECT_EQ(operands(cat_node).size(), 2U);
  EXPECT_EQ(step.nodes[4].args[5].data, Arg{Symbol{"channels_last"}}.data);
  EXPECT_EQ(step.nodes[4].phase, Phase::Recompute);
  EXPECT_EQ(step.outputs[1].key, "fc1.weight");
  EXPECT_EQ(find_function(graph, "init")->nodes[0].phase, Phase::Init);
  EXPECT_EQ(find_function(graph, "none"), nullptr);
}

TEST(Graph, PrintsOneNode) {
  const Graph graph = parse(kMlp);
  const Function& step = step_of(graph);
  EXPECT_EQ(
      print(step, step.nodes[1]),
      "%fc1/mm = aten.mm(%x, %fc1/t) : f32[32, 64]");
  EXPECT_EQ(module_path(step, step.nodes[1]), "fc1");
  EXPECT_EQ(module_path("x"), "");
  EXPECT_EQ(module_path("a.b/mm.1"), "a.b");
}

TEST(Graph, CommentsAndSpacesDoNotMatter) {
  const Graph graph = parse(R"(// a comment
    graph @g func @step{input %x :f32[2]=batch "0" // the batch
    forward: %y=aten.add.Tensor( %x ,%x,alpha =2):f32[2]return loss=%y})");
  EXPECT_EQ(step_of(graph).inputs.size(), 1U);
  EXPECT_EQ(step_of(graph).nodes[0].options.size(), 1U);
}

TEST(Graph, UsersNameEachReaderOnce) {
  const Graph graph = parse(
      "graph @g func @step { input %x : f32[2] = batch \"0\" forward: "
      "%y = aten.mul.Tensor(%x, %x) : f32[2] "
      "%z = aten.mul.Tensor(%y, %x) : f32[2] return loss = %z }");
  const auto readers = users(step_of(graph));
  EXPECT_EQ(readers[0], (std::vector<NodeId>{NodeId{0}, NodeId{1}}));
  EXPECT_EQ(readers[1], (std::vector<NodeId>{NodeId{1}}));
  EXPECT_TRUE(readers[2].empty());
}

TEST(Graph, StepIsAskedForByName) {
  try {
    step_of(parse("graph @g"));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "the graph @g has no function @step");
  }
}

TEST(NameTable, NamesAreNew) {
  NameTable names;
  EXPECT_EQ(names.unique("a", "mm"), "a/mm");
  EXPECT_EQ(names.unique("a", "mm"), "a/mm.1");
  EXPECT_EQ(names.unique("", "mm"), "mm");
  EXPECT_EQ(names.unique("a", "mm.2"), "a/mm.2");
  EXPECT_EQ(names.unique("a", "mm"), "a/mm.3");
  EXPECT_EQ(names.unique("a", "mm.1"), "a/mm.1.1");
  EXPECT_EQ(names.unique("", "a/mm"), "a/mm.4");
  EXPECT_EQ(names.unique("a", "b/mm"), "a/b/mm");
  EXPECT_EQ(names.unique("a/b", "mm"), "a/b/mm.1");
}

TEST(NameTable, KnowsThoseOfAFunction) {
  Function f;
  for (const char* name : {"x", "a/mm", "a/mm.1"}) {
    add_value(f, name, {});
  }
  NameTable names(f);
  EXPECT_EQ(names.unique("", "x"), "x.1");
  EXPECT_EQ(names.unique("a", "mm"), "a/mm.2");
}

TEST(Graph, RenumberPutsValuesInTheOrderOfTheText) {
  Function f;
  f.name = "step";
  Node node;
  node.op = "aten.relu";
  const ValueId lost = add_value(f, "lost", {});
  const ValueId x = add_value(f, "x", {});
  f.inputs.push_back({x, InputKind::Batch, {"0"}, false});
  node.args = {{x}};
  node.releases = {x};
  add_node(f, node, {"y"}, {TensorType{}});
  // An input that is met late, as capture meets parameters.
  const ValueId w = add_value(f, "w", {});
  f.inputs.push_back({w, InputKind::Parameter, {"w"}, true});
  node.args = {{w}};
  node.releases = {};
  add_node(f, node, {"z"}, {TensorType{}});
  f.outputs = {{OutputKind::Loss, "", f.nodes[1].results[0]}};
  Graph graph;
  graph.name = "g";
  graph.functions = {f};
  EXPECT_THROW(verify(graph), UserError);
  renumber(graph.functions[0]);
  verify(graph);
  EXPECT_EQ(parse(print(graph)), graph);
  EXPECT_EQ(
      print(graph),
      "graph @g\n\nfunc @step {\n"
      "  input %x : f32[] = batch \"0\"\n"
      "  input %w : f32[] = parameter \"w\" trained\n"
      "forward:\n"
      "  %y = aten.relu(%x) : f32[] release(%x)\n"
      "  %z = aten.relu(%w) : f32[]\n"
      "  return loss = %z\n}\n");
  EXPECT_EQ(lost, ValueId{0});
}

TEST(Graph, RandomGraphsRoundTrip) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph =
        random_graph({.seed = seed, .nodes = static_cast<int>(seed % 50)});
    ASSERT_NO_THROW(verify(graph)) << seed;
    const std::string text = print(graph);
    const Graph back = parse(text);
    ASSERT_EQ(back, graph) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(back), text) << seed;
    ASSERT_NO_THROW(verify(back)) << seed;
  }
}

// Whatever the text, parse and verify either succeed or throw UserError.
void parse_garbage(const std::string& text) {
  try {
    const Graph graph = parse(text);
    verify(graph);
    EXPECT_EQ(print(parse(print(graph))), print(graph)) << text;
  } catch (const UserError& error) {
    EXPECT_STRNE(error.what(), "");
  }
}

TEST(Graph, GarbageIsAUserError) {
  std::mt19937 random(7);
  const std::string whole =
      cat(kMlp, print(random_graph({.seed = 1, .nodes = 10})).substr(13));
  const std::string tokens[] = {
      "%",   "(",    ")",      "[",     "]",  "{",
      "}",   ",",    "\"",     "=",     ":",  "\\x",
      "//",  "\n",   "return", "input", "1e", "-",
      "inf", "none", "f32",    "func",  "@",  "99999999999999999999"};
  for (int round = 0; round < 4000; ++round) {
    std::string text = round % 2 == 0 ? kMlp : whole;
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 12);
          break;
        case 2:
          text.insert(at, tokens[random() % std::size(tokens)]);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 80));
          break;
        default:
          text.resize(at + 1);
      }
    }
    parse_garbage(text);
  }
}

TEST(Graph, DeepListsAreRefused) {
  const std::string open(100000, '[');
  try {
    parse(cat("graph @g func @f { forward: %x = aten.a(", open));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "t:1:57: lists nested deeper than 16");
  }
}

// A bound that only quadratic work can miss: the usual time is a tenth of a
// second, without sanitizers.
TEST(Graph, ThirtyThousandNodesAreQuick) {
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = random_graph({.seed = 3, .nodes = 15000, .repeat = 0});
  const std::string text = print(graph);
  const Graph back = parse(text);
  verify(back);
  EXPECT_TRUE(back == graph);
  const std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(elapsed.count(), 10.0);
}

}  // namespace
}  // namespace weft
