// SPDX-License-Identifier: Apache-2.0
#include "execute/batch_norm_kernel.h"

#include "base/error.h"
#include "ops/call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace weft {
namespace {

// An image as [outer][channel][inner] of memory: [N][C][space] row-major, or
// [N * space][C][1] channels last. Other orders are copied first.
struct Image {
  at::Tensor tensor;
  int64_t outer = 0;
  int64_t channels = 0;
  int64_t inner = 0;
};

at::MemoryFormat format_of(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? at::MemoryFormat::Contiguous
                                : tensor.suggest_memory_format();
}

Image image_of(const at::Tensor& tensor, at::MemoryFormat format) {
  Image image;
  image.tensor = tensor.contiguous(format);
  image.channels = tensor.size(1);
  const int64_t rest =
      image.channels == 0 ? 0 : tensor.numel() / image.channels;
  const bool rows = format == at::MemoryFormat::Contiguous;
  image.outer = rows ? tensor.size(0) : rest;
  image.inner = rows ? (image.outer == 0 ? 0 : rest / image.outer) : 1;
  return image;
}

// Calls visit(channel, first element, how many) for every stretch of one
// channel.
template <typename Visit>
void for_each_stretch(const Image& image, Visit&& visit) {
  for (int64_t o = 0; o < image.outer; ++o) {
    for (int64_t c = 0; c < image.channels; ++c) {
      visit(c, (o * image.channels + c) * image.inner, image.inner);
    }
  }
}

// What a kernel keeps of KernelArguments.
struct Bound {
  Node node;
  std::vector<at::Tensor> operands;
  std::vector<at::Tensor> results;
};

// In the type that the kernel computes in: double, or float for all others.
template <typename T>
at::Tensor as(const at::Tensor& tensor) {
  return tensor.to(c10::CppTypeToScalarType<T>::value);
}

template <typename T>
const T* data(const at::Tensor& tensor) {
  return tensor.const_data_ptr<T>();
}

template <typename T>
void sums(const Bound& in) {
  const at::Tensor input = as<T>(in.operands[0]);
  const Image image = image_of(input, format_of(input));
  double* out = in.results[0].mutable_data_ptr<double>();
  std::fill(out, out + 2 * image.channels, 0.0);
  const T* x = data<T>(image.tensor);
  for_each_stretch(image, [&](int64_t c, int64_t first, int64_t count) {
    double sum = 0;
    double squares = 0;
    for (int64_t i = first; i < first + count; ++i) {
      const double value = x[i];
      sum += value;
      squares += value * value;
    }
    out[c] += sum;
    out[image.channels + c] += squares;
  });
}

void statistics(const Bound& in) {
  const double* sums = in.operands[0].const_data_ptr<double>();
  const int64_t channels = in.operands[0].size(1);
  const auto count = static_cast<double>(int_arg(in.node, 3, 1));
  const double momentum = number_arg(in.node, 4, 0.1);
  const double eps = number_arg(in.node, 5, 1e-5);
  // Read before anything is written: results may lie in their place.
  const at::Tensor running_mean = in.operands[1].to(at::kDouble);
  const at::Tensor running_var = in.operands[2].to(at::kDouble);
  std::vector<at::Tensor> made;
  for (int i = 0; i < 5; ++i) {
    made.push_back(
        at::empty({channels}, at::TensorOptions().dtype(at::kDouble)));
  }
  for (int64_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / count;
    const double variance =
        std::max(0.0, sums[channels + c] / count - mean * mean);
    const double unbiased =
        count > 1 ? variance * count / (count - 1) : variance;
    const double values[] = {
        mean,
        variance,
        1 / std::sqrt(variance + eps),
        momentum * mean +
            (1 - momentum) * running_mean.const_data_ptr<double>()[c],
        momentum * unbiased +
            (1 - momentum) * running_var.const_data_ptr<double>()[c]};
    for (size_t i = 0; i < 5; ++i) {
      made[i].mutable_data_ptr<double>()[c] = values[i];
    }
  }
  for (size_t i = 0; i < 5; ++i) {
    in.results[i].copy_(made[i]);
  }
}

template <typename T>
void backward_sums(const Bound& in) {
  const at::Tensor input = as<T>(in.operands[1]);
  const at::MemoryFormat format = format_of(input);
  const Image x = image_of(input, format);
  const Image dy = image_of(as<T>(in.operands[0]), format);
  const at::Tensor mean = as<T>(in.operands[2]);
  double* out = in.results[0].mutable_data_ptr<double>();
  std::fill(out, out + 2 * x.channels, 0.0);
  const T* xs = data<T>(x.tensor);
  const T* dys = data<T>(dy.tensor);
  for_each_stretch(x, [&](int64_t c, int64_t first, int64_t count) {
    double sum = 0;
    double product = 0;
    const double middle = data<T>(mean)[c];
    for (int64_t i = first; i < first + count; ++i) {
      sum += dys[i];
      product += dys[i] * (xs[i] - middle);
    }
    out[c] += sum;
    out[x.channels + c] += product;
  });
}

template <typename T>
void backward_input(const Bound& in) {
  const bool has_weight = in.operands.size() == 6;
  const size_t mean_at = has_weight ? 3 : 2;
  const at::Tensor input = as<T>(in.operands[1]);
  const at::MemoryFormat format = format_of(input);
  const Image x = image_of(input, format);
  const Image dy = image_of(as<T>(in.operands[0]), format);
  const at::Tensor mean = as<T>(in.operands[mean_at]);
  const at::Tensor invstd = as<T>(in.operands[mean_at + 1]);
  const double* sums = in.operands[mean_at + 2].const_data_ptr<double>();
  const at::Tensor weight = has_weight ? as<T>(in.operands[2]) : at::Tensor();
  const auto count =
      static_cast<double>(int_arg(in.node, in.node.args.size() - 1, 1));
  constexpr at::ScalarType made_type = c10::CppTypeToScalarType<T>::value;
  const bool is_direct = in.results[0].scalar_type() == made_type &&
                         in.results[0].is_contiguous(format);
  const at::Tensor made = is_direct ? in.results[0] : at::empty_like(x.tensor);
  // Read before anything is written: two samples in f64 are of the type of the
  // sums, and the result may lie in their place.
  std::vector<T> mean_dys;
  std::vector<T> slopes;
  for (int64_t c = 0; c < x.channels; ++c) {
    const T inverse = data<T>(invstd)[c];
    mean_dys.push_back(static_cast<T>(sums[c] / count));
    slopes.push_back(
        static_cast<T>(sums[x.channels + c] * inverse * inverse / count));
  }
  T* dx = made.mutable_data_ptr<T>();
  const T* xs = data<T>(x.tensor);
  const T* dys = data<T>(dy.tensor);
  for_each_stretch(x, [&](int64_t c, int64_t first, int64_t length) {
    const auto channel = static_cast<size_t>(c);
    const T middle = data<T>(mean)[c];
    const T inverse = data<T>(invstd)[c];
    const T scale = has_weight ? inverse * data<T>(weight)[c] : inverse;
    const T mean_dy = mean_dys[channel];
    const T slope = slopes[channel];
    for (int64_t i = first; i < first + length; ++i) {
      dx[i] = (dys[i] - mean_dy - (xs[i] - middle) * slope) * scale;
    }
  });
  if (!is_direct) {
    in.results[0].copy_(made);
  }
}

void backward_weights(const Bound& in) {
  const at::Tensor& sums = in.operands[0];
  in.results[0].copy_(at::mul(sums[1], in.operands[1].to(at::kDouble)));
  in.results[1].copy_(sums[0]);
}

using Run = void (*)(const Bound&);

struct Entry {
  std::string_view op;
  Run in_float;
  Run in_double;
  // The operand whose type decides.
  size_t image;
};

const Entry* find(std::string_view op) {
  static const Entry entries[] = {
      {"weft.batch_norm_sums", &sums<float>, &sums<double>, 0},
      {"weft.batch_norm_statistics", &statistics, &statistics, 0},
      {"weft.batch_norm_backward_sums",
       &backward_sums<float>,
       &backward_sums<double>,
       1},
      {"weft.batch_norm_backward_input",
       &backward_input<float>,
       &backward_input<double>,
       1},
      {"weft.batch_norm_backward_weights",
       &backward_weights,
       &backward_weights,
       0}};
  const auto found = std::find_if(
      std::begin(entries), std::end(entries), [op](const Entry& entry) {
        return entry.op == op;
      });
  return found == std::end(entries) ? nullptr : found;
}

}  // namespace

Kernel bind_batch_norm_kernel(const KernelArguments& arguments) {
  const Entry* entry = find(arguments.node.op);
  if (entry == nullptr) {
    return {};
  }
  const bool in_double =
      arguments.operands[entry->image].scalar_type() == at::kDouble;
  return [run = in_double ? entry->in_double : entry->in_float,
          bound = Bound{arguments.node, arguments.operands, arguments.results}](
             const StepContext&) { run(bound); };
}

}  // namespace weft
