// SPDX-License-Identifier: Apache-2.0
// Recurrent layers as one call. nn.LSTM on a CPU runs oneDNN's layer, whose
// workspace is one opaque block for the whole batch, so nothing of it splits;
// the fused cells of GPUs split over the batch. nn.GRU and nn.RNN are made of
// other ops.
#include "ops/call.h"
#include "ops/families.h"
#include "ops/kernel.h"

#include <algorithm>

namespace weft {

namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kFloat = 4;
constexpr int64_t kGates = 4;

int64_t in_pages(int64_t bytes) { return round_up(bytes, kPage); }

// oneDNN starts rows at multiples of 16 elements, but not of 256.
int64_t row_length(int64_t elements) {
  const int64_t length = round_up(elements, 16);
  return length % 256 == 0 ? length + 16 : length;
}

// An LSTM layer over `steps` of a batch.
struct Lstm {
  int64_t steps;
  int64_t batch;
  int64_t input;
  int64_t hidden;

  static Lstm of(const Function& function, const Node& node) {
    const Dims& x = type_arg(function, node, 0).sizes;
    const Dims& weight = type_arg(function, node, 2).sizes;
    return {x.at(0), x.at(1), x.at(2), weight.at(1)};
  }

  // Two products of matrices for every gate and step.
  int64_t flops() const {
    return 2 * steps * batch * kGates * hidden * (input + hidden);
  }

  int64_t gates_bytes() const {
    return steps * batch * row_length(kGates * hidden) * kFloat;
  }

  // What forward keeps for backward: the gates, five arrays of states for two
  // layers and one more step (the cell's two have rows without gaps), and the
  // outputs; each in pages of its own.
  int64_t workspace_bytes() const {
    const int64_t rows = 2 * (steps + 1) * batch * kFloat;
    const int64_t width = row_length(std::max(input, hidden));
    return in_pages(gates_bytes()) + 3 * in_pages(rows * width) +
           2 * in_pages(rows * hidden) +
           in_pages(steps * batch * row_length(hidden) * kFloat);
  }

  // The weights with their rows moved apart, the sum of the biases, and gates
  // and states of a step.
  int64_t scratch_bytes() const {
    const int64_t weights =
        row_length(kGates * hidden) * (input + hidden) * kFloat;
    return weights + kGates * hidden * kFloat + in_pages(gates_bytes()) +
           2 * in_pages(batch * hidden * kFloat) + kPage + 568;
  }

  // Backward also pads weights whose rows are not multiples of 16.
  int64_t backward_scratch_bytes() const {
    int64_t bytes = scratch_bytes();
    for (const int64_t width : {input, hidden}) {
      if (width % 16 != 0) {
        bytes += kGates * hidden * round_up(width, 16) * kFloat;
      }
    }
    return bytes;
  }
};

// (input, weight0, weight1, weight2, weight3, hx, cx, ..., batch_first, train)
//   -> (output, hy, cy, workspace)
std::vector<TensorType> lstm_types(const Function& function, const Node& node) {
  const Lstm lstm = Lstm::of(function, node);
  const DType dtype = type_arg(function, node, 0).dtype;
  const TensorType& hx = type_arg(function, node, 5);
  const TensorType& cx = type_arg(function, node, 6);
  return {
      make_type(dtype, {lstm.steps, lstm.batch, lstm.hidden}),
      make_type(hx.dtype, hx.sizes),
      make_type(cx.dtype, cx.sizes),
      bool_arg(node, 15, true) ? make_type(DType::U8, {lstm.workspace_bytes()})
                               : undefined_type()};
}

// (input, weight1 to weight4, hx, cx, output, hy, cy, grads, ..., workspace)
//   -> gradients of the input, the weights, hx and cx
std::vector<TensorType> lstm_backward_types(
    const Function& function, const Node& node) {
  std::vector<TensorType> types;
  for (size_t position = 0; position < 7; ++position) {
    const TensorType& of = type_arg(function, node, position);
    types.push_back(make_type(of.dtype, of.sizes));
  }
  return types;
}

// (input_gates, hidden_gates, cx, input_bias, hidden_bias)
//   -> (hy, cy, workspace)
std::vector<TensorType> lstm_cell_types(
    const Function& function, const Node& node) {
  const TensorType& gates = type_arg(function, node, 0);
  const TensorType& cx = type_arg(function, node, 2);
  return {
      make_type(cx.dtype, cx.sizes),
      make_type(cx.dtype, cx.sizes),
      make_type(gates.dtype, gates.sizes)};
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias)
//   -> (gradients of the gates, of cx, of the bias)
std::vector<TensorType> lstm_cell_backward_types(
    const Function& function, const Node& node) {
  const TensorType& cx = type_arg(function, node, 2);
  const TensorType& gates = type_arg(function, node, 4);
  return {
      make_type(gates.dtype, gates.sizes),
      make_type(cx.dtype, cx.sizes),
      bool_arg(node, 5, false) ? make_type(gates.dtype, {gates.sizes.at(1)})
                               : undefined_type()};
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
std::vector<TensorType> gru_cell_types(
    const Function& function, const Node& node) {
  const TensorType& hx = type_arg(function, node, 2);
  return {
      make_type(hx.dtype, hx.sizes),
      make_type(hx.dtype, {hx.sizes.at(0), 5 * hx.sizes.at(1)})};
}

// (grad_hy, workspace, has_bias) -> gradients of the input's gates, the
// hidden gates, hx and the two biases
std::vector<TensorType> gru_cell_backward_types(
    const Function& function, const Node& node) {
  const TensorType& grad = type_arg(function, node, 0);
  const int64_t gates = 3 * grad.sizes.at(1);
  const TensorType both = make_type(grad.dtype, {grad.sizes.at(0), gates});
  const TensorType bias = bool_arg(node, 2, false)
                              ? make_type(grad.dtype, {gates})
                              : undefined_type();
  return {both, both, make_type(grad.dtype, grad.sizes), bias, bias};
}

}  // namespace

void add_recurrent_ops(OpTable& ops) {
  ops.push_back({
      .name = "aten.mkldnn_rnn_layer",
      .flops =
          [](const Function& function, const Node& node) {
            return Lstm::of(function, node).flops();
          },
      .scratch_bytes =
          [](const Function& function, const Node& node) {
            return Lstm::of(function, node).scratch_bytes();
          },
      .types = lstm_types,
      .backward = "aten.mkldnn_rnn_layer_backward",
      .examples =
          {"(f32[4, 4, 8], f32[64, 8], f32[64, 16], f32[64], f32[64], f32[4, "
           "16], "
           "f32[4, 16], false, [], 2, 16, 1, true, false, false, true)"},
  });
  ops.push_back({
      .name = "aten.mkldnn_rnn_layer_backward",
      .flops =
          [](const Function& function, const Node& node) {
            return 2 * Lstm::of(function, node).flops();
          },
      .scratch_bytes =
          [](const Function& function, const Node& node) {
            int64_t bytes = Lstm::of(function, node).backward_scratch_bytes();
            // Of the output and the last states; zeros for one that is absent.
            for (size_t result = 7; result < 10; ++result) {
              const size_t gradient = result + 3;
              bytes += value_arg(node, gradient) == ValueId::None
                           ? dense_bytes(type_arg(function, node, result))
                           : copy_bytes(function, node, gradient);
            }
            return bytes;
          },
      .types = lstm_backward_types,
      .examples =
          {"(f32[4, 4, 8], f32[64, 8], f32[64, 16], f32[64], f32[64], f32[4, "
           "16], "
           "f32[4, 16], f32[4, 4, 16], f32[4, 16], f32[4, 16], f32[4, 4, 16], "
           "f32[4, 16], f32[4, 16], false, 2, 16, 1, true, true, false, [], "
           "false, u8[32768])"},
  });
  ops.push_back({
      .name = "aten._thnn_fused_lstm_cell",
      .rule = "n g!, n g!, n h!, g!, g! -> n h!, n h!, n g!",
      .flops = per_element(8),
      .types = lstm_cell_types,
      .backward = "aten._thnn_fused_lstm_cell_backward_impl",
      .examples = {"(f32[4, 32], f32[4, 32], f32[4, 8], f32[32], f32[32])"},
  });
  ops.push_back({
      .name = "aten._thnn_fused_lstm_cell_backward_impl",
      .rule = "n h!, n h!, n h!, n h!, n g! -> n g!, n h!, g!",
      .flops = per_element(10),
      .types = lstm_cell_backward_types,
      .examples =
          {"(f32[4, 8], f32[4, 8], f32[4, 8], f32[4, 8], f32[4, 32], true)"},
  });
  ops.push_back({
      .name = "aten._thnn_fused_gru_cell",
      .rule = "n g!, n g!, n h!, g!, g! -> n h!, n w!",
      .flops = per_element(8),
      .types = gru_cell_types,
      .backward = "aten._thnn_fused_gru_cell_backward",
      .examples = {"(f32[4, 24], f32[4, 24], f32[4, 8], f32[24], f32[24])"},
  });
  ops.push_back({
      .name = "aten._thnn_fused_gru_cell_backward",
      .rule = "n h!, n w! -> n g!, n g!, n h!, g!, g!",
      .flops = per_element(10),
      .types = gru_cell_backward_types,
      .examples = {"(f32[4, 8], f32[4, 40], true)"},
  });
}

}  // namespace weft
