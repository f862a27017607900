// SPDX-License-Identifier: Apache-2.0
#include "capture/composite_call.h"

#include "capture/call_stack.h"
#include "capture/ctc_call.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/nll_loss_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/zeros.h>

namespace weft {
namespace {

std::optional<at::Tensor> fixed_one_hot(
    const at::Tensor& labels, int64_t class_count) {
  if (class_count <= 0 || labels.scalar_type() != at::kLong) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes = labels.sizes().vec();
  sizes.push_back(class_count);
  return at::zeros(sizes, labels.options())
      .scatter(-1, labels.unsqueeze(-1), 1);
}

std::optional<at::Tensor> fixed_bincount(
    const at::Tensor& labels,
    const std::optional<at::Tensor>& weights,
    int64_t size) {
  if (size <= 0 || labels.dim() != 1 || labels.is_floating_point()) {
    return std::nullopt;
  }
  const bool is_weighted = weights && weights->defined() && labels.numel() > 0;
  if (is_weighted && weights->sizes() != labels.sizes()) {
    return std::nullopt;
  }
  const at::ScalarType type = !is_weighted ? at::kLong
                              : weights->scalar_type() == at::kFloat
                                  ? at::kFloat
                                  : at::kDouble;
  const at::Tensor zeros = at::zeros({size}, labels.options().dtype(type));
  return zeros.scatter_add(
      0,
      labels.to(at::kLong),
      is_weighted ? weights->to(type)
                  : at::ones_like(labels, labels.options().dtype(type)));
}

// With labels that are numbers of classes.
std::optional<at::Tensor> fixed_cross_entropy(const Arguments& arguments) {
  const at::Tensor& logits = arguments[0].toTensor();
  const at::Tensor& labels = arguments[1].toTensor();
  const auto weight = arguments[2].toOptional<at::Tensor>();
  const double smoothing = arguments[5].toDouble();
  if (!weight || !weight->defined() || smoothing == 0 ||
      arguments[3].toInt() != at::Reduction::Mean ||
      logits.sizes() == labels.sizes()) {
    return std::nullopt;
  }
  const int64_t ignored = arguments[4].toInt();
  const int64_t classes = logits.dim() == 1 ? 0 : 1;
  const at::Tensor log_shares = at::log_softmax(logits, classes);
  const at::Tensor plain =
      at::nll_loss_nd(log_shares, labels, weight, at::Reduction::Mean, ignored);
  std::vector<int64_t> shape(static_cast<size_t>(logits.dim()), 1);
  shape[static_cast<size_t>(classes)] = weight->size(0);
  const at::Tensor is_ignored = labels == ignored;
  const at::Tensor even = (log_shares * weight->view(shape))
                              .sum(classes)
                              .neg()
                              .masked_fill(is_ignored, 0.0);
  const at::Tensor count =
      weight->gather(0, labels.masked_fill(is_ignored, 0).flatten())
          .masked_fill(is_ignored.flatten(), 0.0)
          .sum();
  return plain * (1 - smoothing) +
         even.sum() / count *
             (smoothing / static_cast<double>(logits.size(classes)));
}

}  // namespace

std::optional<at::Tensor> call_in_other_words(
    const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.operator_name().name;
  if (name == "aten::one_hot") {
    const Arguments arguments = arguments_of(op, stack);
    return fixed_one_hot(arguments[0].toTensor(), arguments[1].toInt());
  }
  if (name == "aten::bincount") {
    const Arguments arguments = arguments_of(op, stack);
    return fixed_bincount(
        arguments[0].toTensor(),
        arguments[1].toOptional<at::Tensor>(),
        arguments[2].toInt());
  }
  if (name == "aten::ctc_loss") {
    return ctc_loss_by_tensors(arguments_of(op, stack));
  }
  if (name == "aten::cross_entropy_loss") {
    return fixed_cross_entropy(arguments_of(op, stack));
  }
  return std::nullopt;
}

}  // namespace weft
