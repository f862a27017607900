// SPDX-License-Identifier: Apache-2.0
#include "plan/parallel.h"

#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// Two layers of a perceptron around a norm, and a tied table.
constexpr const char* kText = R"(graph @text

func @step {
  input %batch.0 : i64[4, 8] = batch "0"
  input %batch.1 : i64[4, 8] = batch "1"
  input %table : f32[64, 16] = parameter "table" trained
  input %blocks.0.up : f32[32, 16] = parameter "blocks.0.up" trained
  input %blocks.0.bias : f32[32] = parameter "blocks.0.bias" trained
  input %blocks.0.down : f32[16, 32] = parameter "blocks.0.down" trained
  input %blocks.1.up : f32[32, 16] = parameter "blocks.1.up" trained
  input %blocks.1.bias : f32[32] = parameter "blocks.1.bias" trained
  input %blocks.1.down : f32[16, 32] = parameter "blocks.1.down" trained
  input %blocks.0.up.exp_avg : f32[32, 16] = state "blocks.0.up.exp_avg"
  input %blocks.0.up.step : f32[] = state "blocks.0.up.step"
  input %lr.0 : f64[] = scalar "lr.0"
forward:
  %embedding = aten.embedding(%table, %batch.0) : f32[4, 8, 16]
  %blocks.0/norm, %blocks.0/norm.1, %blocks.0/norm.2 = aten.native_layer_norm(%embedding, [16], none, none, 1e-05) : f32[4, 8, 16], f32[4, 8, 1], f32[4, 8, 1]
  %blocks.0/view = aten.view(%blocks.0/norm, [32, 16]) : f32[32, 16]
  %blocks.0/t = aten.t(%blocks.0.up) : f32[16, 32]{1, 16}
  %blocks.0/addmm = aten.addmm(%blocks.0.bias, %blocks.0/view, %blocks.0/t) : f32[32, 32]
  %blocks.0/view.1 = aten.view(%blocks.0/addmm, [4, 8, 32]) : f32[4, 8, 32]
  %blocks.0/gelu = aten.gelu(%blocks.0/view.1) : f32[4, 8, 32]
  %blocks.0/view.2 = aten.view(%blocks.0/gelu, [32, 32]) : f32[32, 32]
  %blocks.0/t.1 = aten.t(%blocks.0.down) : f32[32, 16]{1, 32}
  %blocks.0/mm = aten.mm(%blocks.0/view.2, %blocks.0/t.1) : f32[32, 16]
  %blocks.0/view.3 = aten.view(%blocks.0/mm, [4, 8, 16]) : f32[4, 8, 16]
  %blocks.0/add = aten.add.Tensor(%embedding, %blocks.0/view.3) : f32[4, 8, 16]
  %blocks.1/norm, %blocks.1/norm.1, %blocks.1/norm.2 = aten.native_layer_norm(%blocks.0/add, [16], none, none, 1e-05) : f32[4, 8, 16], f32[4, 8, 1], f32[4, 8, 1]
  %blocks.1/view = aten.view(%blocks.1/norm, [32, 16]) : f32[32, 16]
  %blocks.1/t = aten.t(%blocks.1.up) : f32[16, 32]{1, 16}
  %blocks.1/addmm = aten.addmm(%blocks.1.bias, %blocks.1/view, %blocks.1/t) : f32[32, 32]
  %blocks.1/view.1 = aten.view(%blocks.1/addmm, [4, 8, 32]) : f32[4, 8, 32]
  %blocks.1/gelu = aten.gelu(%blocks.1/view.1) : f32[4, 8, 32]
  %blocks.1/view.2 = aten.view(%blocks.1/gelu, [32, 32]) : f32[32, 32]
  %blocks.1/t.1 = aten.t(%blocks.1.down) : f32[32, 16]{1, 32}
  %blocks.1/mm = aten.mm(%blocks.1/view.2, %blocks.1/t.1) : f32[32, 16]
  %blocks.1/view.3 = aten.view(%blocks.1/mm, [4, 8, 16]) : f32[4, 8, 16]
  %blocks.1/add = aten.add.Tensor(%blocks.0/add, %blocks.1/view.3) : f32[4, 8, 16]
  %norm, %norm.1, %norm.2 = aten.native_layer_norm(%blocks.1/add, [16], none, none, 1e-05) : f32[4, 8, 16], f32[4, 8, 1], f32[4, 8, 1]
  %view = aten.view(%norm, [32, 16]) : f32[32, 16]
  %t = aten.t(%table) : f32[16, 64]{1, 16}
  %mm = aten.mm(%view, %t) : f32[32, 64]
  %log_softmax = aten._log_softmax(%mm, 1, false) : f32[32, 64]
  %view.1 = aten.view(%batch.1, [32]) : i64[32]
  %loss, %count = aten.nll_loss_forward(%log_softmax, %view.1, none, 1, -100) : f32[], f32[]
backward:
  %g = aten.mul.Tensor(%blocks.0.up, %loss) : f32[32, 16]
optimizer:
  %g.scaled = aten.mul.Tensor(%g, 0.5) : f32[32, 16]
  %blocks.0.up.1, %blocks.0.up.exp_avg.1 = weft.sgd(%blocks.0.up, %g.scaled, %blocks.0.up.exp_avg, %lr.0, momentum=0.9) : f32[32, 16], f32[32, 16]
  return loss = %loss
  return parameter "blocks.0.up" = %blocks.0.up.1
  return state "blocks.0.up.exp_avg" = %blocks.0.up.exp_avg.1
}
)";

// Attention with queries, keys and values from one product, as views of it.
constexpr const char* kAttention = R"(graph @attention

func @step {
  input %x : f32[4, 8, 16] = batch "x"
  input %qkv : f32[48, 16] = parameter "qkv" trained
  input %out : f32[16, 16] = parameter "out" trained
forward:
  %view = aten.view(%x, [32, 16]) : f32[32, 16]
  %t = aten.t(%qkv) : f32[16, 48]{1, 16}
  %mm = aten.mm(%view, %t) : f32[32, 48]
  %heads = aten.view(%mm, [4, 8, 3, 4, 4]) : f32[4, 8, 3, 4, 4]
  %q, %k, %v = aten.unbind.int(%heads, 2) : f32[4, 8, 4, 4]{384, 48, 4, 1}, f32[4, 8, 4, 4]{384, 48, 4, 1}, f32[4, 8, 4, 4]{384, 48, 4, 1}
  %q.t = aten.transpose.int(%q, 1, 2) : f32[4, 4, 8, 4]{384, 4, 48, 1}
  %k.t = aten.transpose.int(%k, 1, 2) : f32[4, 4, 8, 4]{384, 4, 48, 1}
  %v.t = aten.transpose.int(%v, 1, 2) : f32[4, 4, 8, 4]{384, 4, 48, 1}
  %attention, %logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(%q.t, %k.t, %v.t, 0.0, true) : f32[4, 4, 8, 4]{128, 4, 16, 1}, f32[4, 4, 8]{32, 1, 4}
  %attention.t = aten.transpose.int(%attention, 1, 2) : f32[4, 8, 4, 4]
  %flat = aten.view(%attention.t, [4, 8, 16]) : f32[4, 8, 16]
  %rows = aten.view(%flat, [32, 16]) : f32[32, 16]
  %out.t = aten.t(%out) : f32[16, 16]{1, 16}
  %y = aten.mm(%rows, %out.t) : f32[32, 16]
  %loss = aten.sum(%y) : f32[]
  return loss = %loss
}
)";

// Two experts, and an image.
constexpr const char* kOthers = R"(graph @others

func @step {
  input %image : f32[4, 3, 8, 8] = batch "image"
  input %seats : f32[2, 8, 16] = batch "seats"
  input %experts : f32[2, 16, 32] = parameter "experts" trained
forward:
  %bmm = aten.bmm(%seats, %experts) : f32[2, 8, 32]
  %sum = aten.sum(%bmm) : f32[]
  %loss = aten.add.Tensor(%sum, 1) : f32[]
  return loss = %loss
}
)";

constexpr const char* kImages = R"(graph @images

func @step {
  input %image : f32[8, 3, 8, 8] = batch "image"
  input %labels : i64[8, 8, 8] = batch "labels"
  input %fc : f32[4, 3] = parameter "fc" trained
forward:
  %y = aten.relu(%image) : f32[8, 3, 8, 8]
  %mean = aten.mean.dim(%y, [2, 3]) : f32[8, 3]
  %t = aten.t(%fc) : f32[3, 4]{1, 3}
  %mm = aten.mm(%mean, %t) : f32[8, 4]
  %rows = aten.view(%y, [8, 192]) : f32[8, 192]
  %sum = aten.sum(%rows) : f32[]
  %loss = aten.sum(%mm) : f32[]
backward:
  %seed = aten.ones_like(%mean) : f32[8, 3]
  %one = aten.view(%seed, [8, 3, 1, 1]) : f32[8, 3, 1, 1]
  %all = aten.expand(%one, [8, 3, 8, 8]) : f32[8, 3, 8, 8]{3, 1, 0, 0}
  return loss = %loss
}
)";

constexpr const char* kSignals = R"(graph @signals

func @step {
  input %signal : f32[8, 3, 10] = batch "signal"
  input %labels : i64[8, 10] = batch "labels"
forward:
  %y = aten.relu(%signal) : f32[8, 3, 10]
  %loss = aten.sum(%y) : f32[]
  return loss = %loss
}
)";

Parallel parse(const std::string& text) { return parse_parallel(text, "p"); }

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string plan_of(const std::string& words, const char* graph) {
  try {
    const Plan plan = expand(parse(words), parse_graph(graph, "g"));
    EXPECT_EQ(parse_plan(print(plan), "again"), plan);
    return print(plan);
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Parallel, PrintsWhatItParsed) {
  for (const char* text :
       {"",
        "data=2",
        "data=4,tensor=2,sequence,vocabulary=off,zero=3,shard=2",
        "tensor=2x2x2",
        "context=2,expert=2",
        "ulysses=4",
        "data=2,spatial=2x2"}) {
    EXPECT_EQ(print(parse(text)), text);
    EXPECT_EQ(parse(print(parse(text))), parse(text));
  }
  EXPECT_EQ(print(parse(" tensor=2 , data=2,vocabulary")), "data=2,tensor=2");
  EXPECT_EQ(rank_count(parse("data=2,tensor=2x3,zero=1")), 12);
  EXPECT_EQ(print(parse("seats=2,expert=4")), "expert=4,seats=2");
  EXPECT_EQ(rank_count(parse("expert=4,seats=2")), 4);
}

TEST(Parallel, OneMessageForEachMistake) {
  EXPECT_EQ(
      message_of("dta=2"),
      "p: no word is called \"dta\"; there are data=N, tensor=N (or 2x2, "
      "2x2x2), sequence, vocabulary=off, context=N, ulysses=N, expert=N, "
      "seats=N, spatial=2x2, zero=1, 2 or 3, shard=N, pipeline=N, stages=N, "
      "schedule=NAME (or FILE), micro-batches=N, slices=N (or 3:2:1, auto), "
      "with commas between");
  EXPECT_EQ(message_of("data=2,data=2"), "p: the word data stands twice");
  EXPECT_EQ(
      message_of("data=2,seats=2"),
      "p: seats=2 says how much room the experts of a rank have: give "
      "expert=N");
  EXPECT_EQ(
      message_of("data=two"),
      "p: data takes a number, as in data=2; found \"two\"");
  EXPECT_EQ(
      message_of("tensor"),
      "p: tensor takes a number, as in tensor=2; found none");
  EXPECT_EQ(message_of("data=2x2"), "p: data takes one number, found \"2x2\"");
  EXPECT_EQ(message_of("data=2,zero=4"), "p: zero is 1, 2 or 3, found 4");
  EXPECT_EQ(
      message_of("tensor=2,sequence=yes"),
      "p: sequence is on or off, found \"yes\"");
}

TEST(Parallel, WordsThatContradict) {
  EXPECT_EQ(
      message_of("sequence"),
      "p: sequence splits over the axis of tensor: give tensor=N, one number");
  EXPECT_EQ(
      message_of("vocabulary=off"),
      "p: vocabulary=off is about tensor: give tensor=N, or leave it out");
  EXPECT_EQ(
      message_of("context=2,ulysses=2"),
      "p: context and ulysses both split the sequence: give one of them");
  EXPECT_EQ(
      message_of("context=2,spatial=2"),
      "p: spatial is about images and volumes, and context, ulysses and "
      "sequence about texts: give one of them");
  EXPECT_EQ(
      message_of("zero=1"),
      "p: zero=1 splits over the ranks of data: give data=N");
  EXPECT_EQ(
      message_of("data=2,shard=2"),
      "p: shard=2 says over how many ranks zero splits: give zero=1, 2 or 3");
  EXPECT_EQ(
      message_of("data=4,zero=1,shard=3"), "p: shard=3 must divide data=4");
}

TEST(Expand, OneRankIsTheWholeStep) {
  EXPECT_EQ(plan_of("", kText), "plan @text on <> {\n  recompute cheap\n}\n");
}

TEST(Expand, Data) {
  EXPECT_EQ(
      plan_of("data=2", kText),
      "plan @text on <data=2> {\n"
      "  recompute cheap\n"
      "  %batch.* [data, -]\n"
      "}\n");
  // Rows that do not divide, too.
  EXPECT_EQ(
      plan_of("data=3", kText),
      "plan @text on <data=3> {\n"
      "  recompute cheap\n"
      "  %batch.* [data, -]\n"
      "}\n");
  // Too few of them: whole.
  EXPECT_EQ(
      plan_of("data=5", kText),
      "plan @text on <data=5> {\n  recompute cheap\n}\n");
}

TEST(Expand, TensorSplitsPairsAndTheVocabulary) {
  EXPECT_EQ(
      plan_of("tensor=2", kText),
      "plan @text on <tensor=2> {\n"
      "  recompute cheap\n"
      "  %table [tensor, -]\n"
      "  %blocks.*.up [tensor, -]\n"
      "  %blocks.*.bias [tensor]\n"
      "  %blocks.*.down [-, tensor]\n"
      "  %blocks.0.up.exp_avg [tensor, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("tensor=2,vocabulary=off", kText),
      "plan @text on <tensor=2> {\n"
      "  recompute cheap\n"
      "  %blocks.*.up [tensor, -]\n"
      "  %blocks.*.bias [tensor]\n"
      "  %blocks.*.down [-, tensor]\n"
      "  %blocks.0.up.exp_avg [tensor, -]\n"
      "}\n");
}

TEST(Expand, SequenceScattersPartialSums) {
  EXPECT_EQ(
      plan_of("data=2,tensor=2,sequence", kText),
      "plan @text on <data=2, tensor=2> {\n"
      "  recompute cheap\n"
      "  %batch.* [data, -]\n"
      "  %table [tensor, -]\n"
      "  %blocks.*.up [tensor, -]\n"
      "  %blocks.*.bias [tensor]\n"
      "  %blocks.*.down [-, tensor]\n"
      "  %blocks.0.up.exp_avg [tensor, -]\n"
      "  %embedding [data, tensor, -]\n"
      "  %blocks.*/view.3 [data, tensor, -]\n"
      "}\n");
}

TEST(Expand, FusedHeadsAreSplitInSections) {
  EXPECT_EQ(
      plan_of("data=2,tensor=2", kAttention),
      "plan @attention on <data=2, tensor=2> {\n"
      "  recompute cheap\n"
      "  %x [data, -, -]\n"
      "  %qkv [(3 tensor:16), -]\n"
      "  %out [-, tensor]\n"
      "}\n");
  // Four heads do not split eight ways.
  EXPECT_EQ(
      plan_of("tensor=8,vocabulary=off", kAttention),
      "tensor=8,vocabulary=off: tensor=8 fits no product of the step: none has "
      "a dim that divides so and is summed over by a later product");
}

TEST(Expand, UlyssesTurnsSequenceIntoHeads) {
  EXPECT_EQ(
      plan_of("data=2,ulysses=2", kAttention),
      "plan @attention on <data=2, context=2> {\n"
      "  recompute cheap\n"
      "  %x [data, context, -]\n"
      "  %q.t [data, context, -, -]\n"
      "  %k.t [data, context, -, -]\n"
      "  %v.t [data, context, -, -]\n"
      "  %flat [data, context, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("tensor=2,ulysses=2", kAttention),
      "plan @attention on <context=2, tensor=2> {\n"
      "  recompute cheap\n"
      "  %x [-, context, -]\n"
      "  %qkv [(3 tensor:16), -]\n"
      "  %out [-, tensor]\n"
      "  %q.t [-, tensor*context, -, -]\n"
      "  %k.t [-, tensor*context, -, -]\n"
      "  %v.t [-, tensor*context, -, -]\n"
      "  %flat [-, context, tensor]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("ulysses=8", kAttention),
      "ulysses=8: nothing that needs the whole sequence has heads that divide "
      "into 8; take fewer ranks, or context=8");
  EXPECT_EQ(
      plan_of("ulysses=3", kAttention),
      "ulysses=3: a sequence of 8 does not divide into 3 pieces");
}

TEST(Expand, ContextGivesEveryRankAsMuchOfACausalMask) {
  EXPECT_EQ(
      plan_of("data=2,context=2", kAttention),
      "plan @attention on <data=2, context=2> {\n"
      "  recompute cheap\n"
      "  %x [data, (4 context:2), -]\n"
      "}\n");
  // What tensor scatters is every second token too.
  EXPECT_EQ(
      plan_of("context=2,tensor=2,sequence", kAttention),
      "plan @attention on <context=2, tensor=2> {\n"
      "  recompute cheap\n"
      "  %x [-, (4 context:2), -]\n"
      "  %qkv [(3 tensor:16), -]\n"
      "  %out [-, tensor]\n"
      "}\n");
  // No stripes of 8 tokens for 3 ranks.
  EXPECT_EQ(
      plan_of("context=3", kAttention),
      "plan @attention on <context=3> {\n"
      "  recompute cheap\n"
      "  %x [-, context, -]\n"
      "}\n");
  std::string whole = kAttention;
  const std::string causal = "0.0, true)";
  whole.replace(whole.find(causal), causal.size(), "0.0, false)");
  EXPECT_EQ(
      plan_of("context=2", whole.c_str()),
      "plan @attention on <context=2> {\n"
      "  recompute cheap\n"
      "  %x [-, context, -]\n"
      "}\n");
}

TEST(Expand, Zero) {
  EXPECT_EQ(
      plan_of("data=2,zero=1", kText),
      "plan @text on <data=2> {\n"
      "  recompute cheap\n"
      "  %batch.* [data, -]\n"
      "  %blocks.0.up.exp_avg [data, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("data=2,zero=2", kText),
      "plan @text on <data=2> {\n"
      "  recompute cheap\n"
      "  %batch.* [data, -]\n"
      "  %blocks.0.up.exp_avg [data, -]\n"
      "  %g [data, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("data=4,tensor=2,zero=3,shard=2", kText),
      "plan @text on <replica=2, shard=2, tensor=2> {\n"
      "  recompute cheap\n"
      "  %batch.* [replica*shard, -]\n"
      "  %table [tensor*shard, -] compute [tensor, -]\n"
      "  %blocks.*.up [tensor*shard, -] compute [tensor, -]\n"
      "  %blocks.*.bias [tensor*shard] compute [tensor]\n"
      "  %blocks.*.down [shard, tensor] compute [-, tensor]\n"
      "  %blocks.0.up.exp_avg [tensor*shard, -]\n"
      "  %g [tensor*shard, -]\n"
      "}\n");
}

TEST(Expand, ExpertsAndImages) {
  EXPECT_EQ(
      plan_of("data=2,expert=2", kOthers),
      "plan @others on <data=2, expert=2> {\n"
      "  recompute cheap\n"
      "  %image [data*expert, -, -, -]\n"
      "  %experts [expert, -, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("spatial=2x2", kOthers),
      "plan @others on <height=2, width=2> {\n"
      "  recompute cheap\n"
      "  %image [-, -, height, width]\n"
      "}\n");
  // The head by samples, and whole again what is spread over space; not what
  // meets no parameter. Six ranks do not divide the samples.
  EXPECT_EQ(
      plan_of("data=2,spatial=2", kImages),
      "plan @images on <data=2, height=2> {\n"
      "  recompute cheap\n"
      "  %image [data, -, height, -]\n"
      "  %labels [data, height, -]\n"
      "  %mean [data*height, -]\n"
      "  %one [data, -, -, -]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("spatial=3x2", kImages),
      "plan @images on <height=3, width=2> {\n"
      "  recompute cheap\n"
      "  %image [-, -, height, width]\n"
      "  %labels [-, height, width]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("spatial=3", kSignals),
      "plan @signals on <width=3> {\n"
      "  recompute cheap\n"
      "  %signal [-, -, width]\n"
      "  %labels [-, width]\n"
      "}\n");
  EXPECT_EQ(
      plan_of("spatial=2x2x2", kOthers),
      "spatial=2x2x2: spatial has more numbers than f32[4, 3, 8, 8] has dims "
      "after the channels");
  EXPECT_EQ(
      plan_of("spatial=2", kText),
      "spatial=2: spatial splits signals, images and volumes, and no input of "
      "the batch has 3 to 5 dims");
  EXPECT_EQ(
      plan_of("expert=2", kText),
      "expert=2: expert=2 splits parameters that hold one matrix an expert, "
      "and the step has none whose experts divide so");
}

}  // namespace
}  // namespace weft
