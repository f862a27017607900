// SPDX-License-Identifier: Apache-2.0
// Every rule of verify, broken once. What a text cannot say is broken in the
// data.
#include "base/error.h"
#include "graph/graph.h"

#include <functional>
#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr const char* kGood = R"(graph @g
module "fc" Linear
constant %c : f32[2] = hex "0000000000000000"
func @step {
  input %x : f32[2] = batch "0"
  input %w : f32[2] = parameter "w" trained
  input %c : f32[2] = constant "c"
forward:
  %y = aten.mul.Tensor(%x, %w) : f32[2]
  %z = aten.add.Tensor(%y, %c, alpha=2) : f32[2] overwrites(%y) release(%x)
  return loss = %z
}
)";

std::string error_of(const Graph& graph) {
  try {
    verify(graph);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

// The message after a change to the data.
std::string broken(const std::function<void(Graph&, Function&)>& change) {
  Graph graph = parse_graph(kGood, "t");
  change(graph, graph.functions[0]);
  return error_of(graph);
}

// The message after a change to the text: of parse, or of verify.
std::string broken_text(std::string_view from, std::string_view to) {
  std::string text = kGood;
  const size_t at = text.find(from);
  if (at == std::string::npos) {
    return "the text has no such part";
  }
  text.replace(at, from.size(), to);
  try {
    return error_of(parse_graph(text, "t"));
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(GraphVerify, AcceptsAGoodGraph) {
  EXPECT_EQ(broken([](Graph&, Function&) {}), "no error");
}

TEST(GraphVerify, Names) {
  EXPECT_EQ(
      broken([](Graph& g, Function&) { g.name = ""; }),
      "[graph] not a name: \"\"");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].name = "a b"; }),
      "[graph] @step: the name of a value must be one or more of A-Z a-z 0-9 _"
      " . / : - and not begin with '/': \"a b\"");
  EXPECT_EQ(
      broken([](Graph&, Function& f) {
        f.values[3].name = "/y";
      }).substr(0, 50),
      "[graph] @step: the name of a value must be one or ");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].name = "x"; }),
      "[graph] @step: %x is defined twice");
  EXPECT_EQ(
      broken_text("%z = aten", "%x = aten"), "t:10:3: %x is defined twice");
  EXPECT_EQ(
      broken([](Graph& g, Function& f) { g.functions.emplace_back(f); }),
      "[graph] function @step is there twice");
  EXPECT_EQ(
      broken_text("module \"fc\" Linear", "module \"a\" X module \"a\" Y"),
      "[graph] module \"a\" is there twice");
  EXPECT_EQ(
      broken([](Graph& g, Function&) { g.modules[0].type = "<lambda>"; }),
      "[graph] module \"fc\": not a class name: \"<lambda>\"");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[0].op = "aten mul"; }),
      "[graph] @step: %y: not the name of an operator: \"aten mul\"");
}

TEST(GraphVerify, Types) {
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].type.sizes = {-1}; }),
      "[graph] @step: %y: its type f32[-1] has a negative size or stride");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].type.strides = {1}; }),
      "[graph] @step: %y: its type f32[2]{1} spells out row-major strides"
      " (use make_type)");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].type.strides = {1, 2}; }),
      "[graph] @step: %y: its type f32[2]{1, 2} has not as many strides as"
      " sizes");
}

TEST(GraphVerify, Constants) {
  EXPECT_EQ(
      broken_text("\"0000000000000000\"", "\"00\""),
      "[graph] constant %c: f32[2] takes 8 bytes, it has 1");
  EXPECT_EQ(
      broken_text("\"0000000000000000\"", "\"0\""),
      "t:3:28: hexadecimal text has an odd number of digits: 1");
  EXPECT_EQ(
      broken([](Graph& g, Function&) {
        g.constants.emplace_back(g.constants[0]);
      }),
      "[graph] constant %c is there twice");
  EXPECT_EQ(
      broken_text("constant \"c\"", "constant \"d\""),
      "[graph] @step: %c: the graph has no constant \"d\"");
  EXPECT_EQ(
      broken_text("%c : f32[2] = constant", "%c : f32[1, 2] = constant"),
      "[graph] @step: %c: its type is f32[1, 2], the constant's is f32[2]");
}

TEST(GraphVerify, Inputs) {
  EXPECT_EQ(
      broken_text("parameter \"w\" trained", "batch \"1\" trained"),
      "[graph] @step: %w: only a parameter can be trained");
  EXPECT_EQ(
      broken_text("batch \"0\"", "batch \"0\" \"1\""),
      "[graph] @step: %x: only a parameter or buffer has several names");
  EXPECT_EQ(
      broken_text("batch \"0\"", "parameter \"w\""),
      "[graph] @step: two inputs are the parameter \"w\"");
  EXPECT_EQ(
      broken_text("batch \"0\"", "batch"),
      "[graph] @step: %x: an input needs a key");
}

TEST(GraphVerify, NumbersAndLinks) {
  EXPECT_EQ(
      broken([](Graph&, Function& f) { std::swap(f.inputs[0], f.inputs[1]); }),
      "[graph] @step: %w is not numbered in the order of definition (call"
      " renumber)");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.values[3].node = NodeId{1}; }),
      "[graph] @step: %y is not linked to the node that makes it");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes.pop_back(); }),
      "[graph] @step: %z is neither an input nor made by a node");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[0].results.clear(); }),
      "[graph] @step: node 0, aten.mul.Tensor, has no result");
}

TEST(GraphVerify, Operands) {
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[0].args[0] = {ValueId{4}}; }),
      "[graph] @step: %y: its operand %z is not defined before it");
  EXPECT_EQ(
      broken([](Graph&, Function& f) {
        f.nodes[0].args[0] = {Arg::List{{ValueId::None}}};
      }),
      "[graph] @step: %y: its operand value number -1 is not defined before "
      "it");
  EXPECT_EQ(
      broken_text("(%x, %w)", "(%x, %z)"),
      "t:9:28: %z is not defined before it is used");
  EXPECT_EQ(
      broken(
          [](Graph&, Function& f) { f.nodes[0].args[0] = {Symbol{"none"}}; }),
      "[graph] @step: %y: a symbol must be a word with no other meaning:"
      " \"none\"");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[1].options[0].name = "a-b"; }),
      "[graph] @step: %z: the name of a keyword argument must be a word:"
      " \"a-b\"");
  EXPECT_EQ(
      broken_text("alpha=2", "alpha=2, alpha=2"),
      "[graph] @step: %z: the keyword argument alpha is twice");
  EXPECT_EQ(
      broken_text("alpha=2", "alpha=2, 3"),
      "t:10:41: a positional argument stands after a keyword argument");
}

TEST(GraphVerify, Storages) {
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[0].releases = {ValueId{4}}; }),
      "[graph] @step: %y: it releases %z, which is not defined yet");
  EXPECT_EQ(
      broken_text("release(%x)", "release(%x, %x)"),
      "[graph] @step: %z: it releases the storage of %x, which was released"
      " before");
  EXPECT_EQ(
      broken_text("release(%x)", "release(%z, %y)"),
      "[graph] @step: %z: it releases the storage of %y, which was released"
      " before");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.nodes[1].overwrites = ValueId{4}; }),
      "[graph] @step: %z: it overwrites %z, which is not defined before it");
}

TEST(GraphVerify, Outputs) {
  EXPECT_EQ(
      broken_text("return loss = %z", "return loss = %z return loss = %y"),
      "[graph] @step: it returns loss twice");
  EXPECT_EQ(
      broken_text(
          "return loss = %z",
          "return gradient \"w\" = %z return gradient \"w\" = %y"),
      "[graph] @step: it returns gradient \"w\" twice");
  EXPECT_EQ(
      broken_text(
          "%z = aten.add.Tensor(%y, %c, alpha=2) : f32[2] overwrites(%y) "
          "release(%x)\n  return loss = %z",
          "%z = aten.sum(%y) : f32[]\n  return parameter \"w\" = %z"),
      "[graph] @step: it returns as parameter \"w\" a value of type f32[], and "
      "the input of that name has f32[2]");
  EXPECT_EQ(
      broken([](Graph&, Function& f) { f.outputs[0].value = ValueId{99}; }),
      "[graph] @step: it returns as loss a value that does not exist");
}

TEST(GraphParse, Messages) {
  EXPECT_EQ(
      broken_text("graph @g", "grph @g"),
      "t:1:1: expected 'graph', found \"grph\"");
  EXPECT_EQ(
      broken_text("func @step", "fun @step"),
      "t:4:1: expected 'module', 'constant' or 'func', found \"fun\"");
  EXPECT_EQ(
      broken_text("batch", "bunch"),
      "t:5:23: expected a kind of input: one of batch, parameter, buffer,"
      " state, scalar, constant, found \"bunch\"");
  EXPECT_EQ(
      broken_text("forward:", ""),
      "t:9:3: expected a phase such as 'forward:' before a node");
  EXPECT_EQ(
      broken_text("forward:", "sideways:"),
      "t:8:1: expected a node, 'return', '}' or a phase: one of init, forward,"
      " backward, recompute, optimizer, found \"sideways\"");
  EXPECT_EQ(
      broken_text("%y = aten", "%y, %q = aten"),
      "t:10:3: expected ',' and another type (2 results need as many types),"
      " found \"%\"");
  EXPECT_EQ(
      broken_text("(%x, %w)", "(%x, )"),
      "t:9:28: expected an argument, found \")\"");
  EXPECT_EQ(
      broken_text("return loss", "return lost"),
      "t:11:10: expected a kind of output: one of loss, extra, gradient,"
      " parameter, buffer, state, found \"lost\"");
  EXPECT_EQ(
      broken_text("= %z\n}", "= %z"),
      "t:12:1: expected 'return' or '}', found the end of the text");
}

}  // namespace
}  // namespace weft
