// SPDX-License-Identifier: Apache-2.0
// Two calls as one give the bits of the two, wherever the result lies, and take
// no memory but what they are given.
#include "base/text.h"
#include "execute/allocation_watch.h"
#include "execute/kernel.h"
#include "ops/op_def.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <gtest/gtest.h>
#include <map>
#include <optional>

namespace weft {
namespace {

struct FusedCall {
  // The two calls, as the text of a step.
  std::string text;
  std::vector<at::Tensor> operands;
  // The operand in whose place the result may lie.
  size_t below = 0;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         a.reshape({-1}).view(at::kByte).equal(b.reshape({-1}).view(at::kByte));
}

// The result apart from all operands, then in the place of one.
void expect_bits(
    const FusedCall& call,
    const at::Tensor& expected,
    const std::string& what) {
  const Graph graph =
      parse_graph("graph @g func @step {" + call.text + "}", what);
  const Function& step = step_of(graph);
  ASSERT_EQ(step.nodes.size(), 2U);
  const std::optional<Node> node =
      fused(step, step.nodes.at(0), step.nodes.at(1));
  ASSERT_TRUE(node.has_value()) << what;
  const at::Tensor work = at::empty({work_bytes_of(step, *node)}, at::kByte);
  for (const bool apart : {true, false}) {
    std::vector<at::Tensor> operands;
    for (const at::Tensor& each : call.operands) {
      operands.push_back(each.clone());
    }
    const at::Tensor result =
        apart ? at::full_like(expected, 7) : operands[call.below];
    const Kernel kernel = bind_kernel(
        {step,
         *node,
         operands,
         {result},
         whole_pieces(step[node->results[0]].type.sizes),
         work});
    AllocationWatch watch;
    const int64_t before = watch.live_bytes();
    kernel({});
    EXPECT_EQ(watch.peak_bytes() - before, 0) << what;
    EXPECT_TRUE(same_bits(result, expected)) << what << ", apart " << apart;
    if (!apart) {
      break;
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      EXPECT_TRUE(same_bits(operands[i], call.operands[i])) << what << i;
    }
  }
}

at::Tensor drawn(at::IntArrayRef sizes, at::ScalarType type) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  return at::empty(sizes).normal_(0, 2, generator).to(type);
}

at::Tensor labels(at::IntArrayRef sizes, int64_t classes) {
  at::Generator generator = at::detail::createCPUGenerator(4);
  at::Tensor made = at::empty(sizes, at::kLong).random_(0, classes, generator);
  // Some count for nothing.
  made.view(-1).slice(0, 0, made.numel(), 5).fill_(-100);
  return made;
}

std::string type_text(const at::Tensor& tensor) {
  static const std::map<at::ScalarType, std::string> names = {
      {at::kFloat, "f32"},
      {at::kDouble, "f64"},
      {at::kBFloat16, "bf16"},
      {at::kHalf, "f16"},
      {at::kInt, "i32"},
      {at::kLong, "i64"}};
  std::string sizes;
  for (const int64_t size : tensor.sizes()) {
    sizes += cat(sizes.empty() ? "" : ", ", size);
  }
  return cat(names.at(tensor.scalar_type()), "[", sizes, "]");
}

struct Loss {
  at::DimVector sizes;
  at::ScalarType type = at::kFloat;
  int64_t reduction = at::Reduction::Mean;
  bool has_weight = false;
};

void prove_loss(const Loss& loss) {
  const bool is_image = loss.sizes.size() > 2;
  at::DimVector of_labels = loss.sizes;
  of_labels.erase(of_labels.begin() + 1);
  const at::Tensor p = at::_log_softmax(drawn(loss.sizes, loss.type), 1, false);
  const at::Tensor target = labels(of_labels, loss.sizes[1]);
  const at::Tensor weight =
      loss.has_weight ? drawn({loss.sizes[1]}, loss.type).abs() : at::Tensor();
  const std::optional<at::Tensor> weights =
      loss.has_weight ? std::optional(weight) : std::nullopt;
  const auto [value, total] =
      is_image
          ? at::nll_loss2d_forward(p, target, weights, loss.reduction, -100)
          : at::nll_loss_forward(p, target, weights, loss.reduction, -100);
  const at::Tensor grad = loss.reduction == at::Reduction::None
                              ? drawn(of_labels, loss.type)
                              : drawn({}, loss.type);
  const at::Tensor first =
      is_image ? at::nll_loss2d_backward(
                     grad, p, target, weights, loss.reduction, -100, total)
               : at::nll_loss_backward(
                     grad, p, target, weights, loss.reduction, -100, total);
  const at::Tensor expected =
      at::_log_softmax_backward_data(first, p, 1, loss.type);
  FusedCall call;
  call.operands = {grad, p, target};
  call.below = 1;
  std::string inputs =
      cat(" input %g : ",
          type_text(grad),
          " = batch \"0\" input %p : ",
          type_text(p),
          " = batch \"1\" input %t : ",
          type_text(target),
          " = batch \"2\"");
  if (loss.has_weight) {
    call.operands.push_back(weight);
    inputs += cat(" input %w : ", type_text(weight), " = batch \"3\"");
  }
  call.operands.push_back(total);
  const std::string type = type_text(p);
  call.text =
      cat(inputs,
          " input %n : ",
          type_text(total),
          " = batch \"4\" backward: %d = aten.nll_loss",
          is_image ? "2d" : "",
          "_backward(%g, %p, %t, ",
          loss.has_weight ? "%w" : "none",
          ", ",
          loss.reduction,
          ", -100, %n) : ",
          type,
          " %e = aten._log_softmax_backward_data(%d, %p, 1, ",
          type.substr(0, type.find('[')),
          ") : ",
          type,
          " ");
  expect_bits(call, expected, cat(type, " ", loss.reduction));
}

TEST(FusedKernel, CrossEntropyHasTheBitsOfItsTwoCalls) {
  at::set_num_threads(1);
  const int64_t mean = at::Reduction::Mean;
  // Fewer samples than there are at a time, some left over, rows that are no
  // multiple of a vector.
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    prove_loss({{5, 1003}, type, mean, false});
    prove_loss({{333, 1003}, type, mean, false});
    prove_loss({{40, 8192}, type, at::Reduction::Sum, true});
    prove_loss({{129, 777}, type, at::Reduction::None, true});
    prove_loss({{70, 11, 30, 20}, type, mean, true});
    prove_loss({{18, 7, 5, 3}, type, at::Reduction::None, false});
  }
  prove_loss({{0, 8}, at::kFloat, mean, false});
}

void prove_embedding(
    at::ScalarType type,
    at::ScalarType index_type,
    int64_t width,
    int64_t padding) {
  const int64_t rows = 50;
  at::Tensor indices =
      labels({7, 31}, rows).abs().remainder(rows).to(index_type);
  const at::Tensor grad = drawn({7, 31, width}, type);
  at::Tensor other = drawn({rows, width}, type);
  // Zeros of either sign.
  other[3].fill_(0.0);
  other[4].fill_(-0.0);
  const at::Tensor first =
      at::embedding_dense_backward(grad, indices, rows, padding, false);
  for (const bool swapped : {false, true}) {
    FusedCall call;
    call.operands = {grad, indices, other};
    call.below = 2;
    const std::string table = type_text(other);
    call.text =
        cat(" input %g : ",
            type_text(grad),
            " = batch \"0\" input %i : ",
            type_text(indices),
            " = batch \"1\" input %o : ",
            table,
            " = batch \"2\" backward: %d = aten.embedding_dense_backward(%g, "
            "%i, ",
            rows,
            ", ",
            padding,
            ", false) : ",
            table,
            swapped ? " %e = aten.add.Tensor(%d, %o) : "
                    : " %e = aten.add.Tensor(%o, %d) : ",
            table,
            " ");
    expect_bits(call, other + first, cat(table, " ", width, " ", padding));
  }
}

TEST(FusedKernel, EmbeddingHasTheBitsOfItsTwoCalls) {
  at::set_num_threads(1);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const int64_t width : {1, 64, 130}) {
      prove_embedding(type, at::kLong, width, -1);
      prove_embedding(type, at::kInt, width, 7);
    }
  }
}

// A product that is added to a sum rounds once where the two round twice, so it
// stands only where the caller allows that.
TEST(FusedKernel, ProductsAreAddedInPlace) {
  const Graph graph = parse_graph(
      "graph @g func @step { input %s : f32[33, 17] = batch \"0\" input %a : "
      "f32[33, 65] = batch \"1\" input %b : f32[65, 17]{1, 65} = batch \"2\" "
      "backward: %p = aten.mm(%a, %b) : f32[33, 17] "
      "%r = aten.add.Tensor(%s, %p) : f32[33, 17] }",
      "t");
  const Function& step = step_of(graph);
  EXPECT_FALSE(fused(step, step.nodes[0], step.nodes[1]).has_value());
  const std::optional<Node> node =
      fused(step, step.nodes[0], step.nodes[1], Bits::Rounded);
  ASSERT_TRUE(node.has_value());
  const at::Tensor sum = drawn({33, 17}, at::kFloat);
  const at::Tensor one = drawn({33, 65}, at::kFloat);
  const at::Tensor other = drawn({17, 65}, at::kFloat).t();
  const at::Tensor expected = sum + one.mm(other);
  for (const bool apart : {true, false}) {
    const at::Tensor mine = sum.clone();
    const at::Tensor result = apart ? at::full_like(sum, 7) : mine;
    const Kernel kernel = bind_kernel(
        {step, *node, {mine, one, other}, {result}, whole_pieces({33, 17})});
    kernel({});
    EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-5)) << apart;
    EXPECT_EQ(same_bits(mine, sum), apart);
  }
}

TEST(FusedKernel, ThreadsDoNotChangeTheBits) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  prove_embedding(at::kFloat, at::kLong, 2048, -1);
  prove_loss({{333, 1003}, at::kFloat, at::Reduction::Mean, false});
  at::set_num_threads(threads);
}

// What the two calls' arguments do not allow stays as it is.
TEST(FusedKernel, OnlyCallsThatFit) {
  const auto fuses = [](const std::string& nodes) {
    const Graph graph = parse_graph(
        "graph @g func @step { input %g : f32[8, 4] = batch \"0\" input %i : "
        "i64[8] = batch \"1\" input %o : f32[16, 4] = batch \"2\" input %c : "
        "f32[4, 16] = batch \"3\" input %n : f32[] = batch \"4\" input %p : "
        "f32[8, 16] = batch \"5\" input %q : f32[8, 16] = batch \"6\" "
        "backward: " +
            nodes + " }",
        "t");
    const Function& step = step_of(graph);
    const size_t last = step.nodes.size() - 1;
    return fused(step, step.nodes[last - 1], step.nodes[last]).has_value();
  };
  const std::string rows =
      "%d = aten.embedding_dense_backward(%g, %i, 16, -1, false) : f32[16, 4] ";
  const std::string counted =
      "%d = aten.embedding_dense_backward(%g, %i, 16, -1, true) : f32[16, 4] ";
  EXPECT_TRUE(fuses(rows + "%e = aten.add.Tensor(%d, %o) : f32[16, 4]"));
  EXPECT_FALSE(fuses(counted + "%e = aten.add.Tensor(%d, %o) : f32[16, 4]"));
  EXPECT_FALSE(
      fuses(rows + "%e = aten.add.Tensor(%d, %o, alpha=2) : f32[16, 4]"));
  EXPECT_FALSE(fuses(rows + "%e = aten.add.Tensor(%d, %d) : f32[16, 4]"));
  EXPECT_FALSE(fuses(rows + "%e = aten.add.Tensor(%d, 1) : f32[16, 4]"));
  EXPECT_FALSE(fuses(
      "%t = aten.t(%c) : f32[16, 4]{1, 16} " + rows +
      "%e = aten.add.Tensor(%t, %d) : f32[16, 4]{1, 16}"));
  const std::string loss =
      "%d = aten.nll_loss_backward(%n, %p, %i, none, 1, -100, %n) : f32[8, 16] "
      "%e = aten._log_softmax_backward_data(%d, ";
  EXPECT_TRUE(fuses(loss + "%p, 1, f32) : f32[8, 16]"));
  EXPECT_TRUE(fuses(loss + "%p, -1, f32) : f32[8, 16]"));
  EXPECT_FALSE(fuses(loss + "%p, 0, f32) : f32[8, 16]"));
  EXPECT_FALSE(fuses(loss + "%q, 1, f32) : f32[8, 16]"));
  EXPECT_FALSE(fuses(loss + "%p, 1, f16) : f16[8, 16]"));
}

}  // namespace
}  // namespace weft
