// SPDX-License-Identifier: Apache-2.0
#include "execute/fused_kernel.h"

#include "ops/call.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/nll_loss2d_backward.h>
#include <ATen/ops/nll_loss_backward.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft {
namespace {

// The tensor at a position of the arguments; undefined for `none`.
at::Tensor tensor_at(const KernelArguments& arguments, size_t position) {
  const ValueId wanted = value_arg(arguments.node, position);
  const std::vector<ValueId> values = operands(arguments.node);
  const auto found = std::find(values.begin(), values.end(), wanted);
  return found == values.end()
             ? at::Tensor()
             : arguments.operands[static_cast<size_t>(found - values.begin())];
}

// --- Cross entropy. PyTorch's own two kernels, on some samples at a time: what
// is between them lies in one piece of memory that all samples share.

struct Samples {
  at::Tensor grad;
  at::Tensor log_probabilities;
  at::Tensor labels;
  // Between both.
  at::Tensor likelihood_grad;
  at::Tensor result;
};

class CrossEntropyBackward {
 public:
  explicit CrossEntropyBackward(const KernelArguments& arguments)
      : weight_(tensor_at(arguments, 3)),
        total_weight_(tensor_at(arguments, 6)),
        reduction_(int_arg(arguments.node, 4, at::Reduction::Mean)),
        ignored_(int_arg(arguments.node, 5, -100)) {
    const at::Tensor grad = tensor_at(arguments, 0);
    const at::Tensor log_probabilities = tensor_at(arguments, 1);
    const at::Tensor labels = tensor_at(arguments, 2);
    const at::Tensor result = arguments.results.front();
    const int64_t count = result.size(0);
    if (result.numel() == 0) {
      return;
    }
    const at::Tensor between = work_memory(arguments, result.scalar_type());
    at::DimVector sizes(result.sizes());
    const int64_t sample = result.numel() / count;
    const int64_t most = between.numel() / sample;
    for (int64_t i = 0; i < count; i += most) {
      const int64_t length = std::min(most, count - i);
      sizes[0] = length;
      samples_.push_back(
          {grad.dim() == 0 ? grad : grad.narrow(0, i, length),
           log_probabilities.narrow(0, i, length),
           labels.narrow(0, i, length),
           between.narrow(0, 0, length * sample).view(sizes),
           result.narrow(0, i, length)});
    }
  }

  void run() {
    for (Samples& each : samples_) {
      const auto likelihood = each.result.dim() == 2
                                  ? &at::nll_loss_backward_out
                                  : &at::nll_loss2d_backward_out;
      likelihood(
          each.likelihood_grad,
          each.grad,
          each.log_probabilities,
          each.labels,
          weight_.defined() ? std::optional(weight_) : std::nullopt,
          reduction_,
          ignored_,
          total_weight_);
      at::_log_softmax_backward_data_out(
          each.result,
          each.likelihood_grad,
          each.log_probabilities,
          1,
          each.result.scalar_type());
    }
  }

 private:
  std::vector<Samples> samples_;
  at::Tensor weight_;
  at::Tensor total_weight_;
  int64_t reduction_ = 0;
  int64_t ignored_ = 0;
};

// --- Embedding. As PyTorch does it: the rows of one index are added up in
// their order, beginning with zero, and then the sum to the other gradient,
// which gets a zero where no row goes. An index that is not of the table has no
// row.

// Fewer are not worth a thread of their own.
constexpr int64_t kLeastElements = 32768;

template <typename T>
void add_rows(
    const T* rows,
    const std::pair<const int64_t*, const int64_t*>& which,
    int64_t width,
    const T* other,
    T* into) {
  constexpr int64_t kColumns = 64;
  for (int64_t begin = 0; begin < width; begin += kColumns) {
    const int64_t end = std::min(width, begin + kColumns);
    std::array<T, kColumns> sums;
    sums.fill(T(0));
    for (const int64_t* row = which.first; row != which.second; ++row) {
      const T* from = rows + *row * width;
      for (int64_t i = begin; i < end; ++i) {
        T& sum = sums[static_cast<size_t>(i - begin)];
        sum = sum + from[i];
      }
    }
    for (int64_t i = begin; i < end; ++i) {
      into[i] = other[i] + sums[static_cast<size_t>(i - begin)];
    }
  }
}

// Whether adding a zero changes one of the elements.
template <typename T>
bool has_negative_zero(const T* row, int64_t width) {
  using Bits = std::conditional_t<
      sizeof(T) == 8,
      uint64_t,
      std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  constexpr Bits kNegativeZero = Bits(Bits(1) << (8 * sizeof(T) - 1));
  const auto found = [](const T& element) {
    return static_cast<Bits>(std::bit_cast<Bits>(element) == kNegativeZero);
  };
  // Of a number that is known, so that the compiler takes many at a time.
  constexpr int64_t kAtOnce = 64;
  Bits any = 0;
  int64_t begin = 0;
  for (; begin + kAtOnce <= width; begin += kAtOnce) {
    for (int64_t i = 0; i < kAtOnce; ++i) {
      any = static_cast<Bits>(any | found(row[begin + i]));
    }
  }
  for (; begin < width; ++begin) {
    any = static_cast<Bits>(any | found(row[begin]));
  }
  return any != 0;
}

struct EmbeddingBackwardAdd {
  at::Tensor grad;
  at::Tensor indices;
  at::Tensor other;
  at::Tensor result;
  // Of as many numbers as there are indices.
  at::Tensor order;
  int64_t padding = -1;

  void run() const {
    if (!result.is_cpu()) {
      const at::Tensor rows = at::embedding_dense_backward(
          grad, indices, result.size(0), padding, false);
      result.copy_(other);
      result.add_(rows);
      return;
    }
    AT_DISPATCH_INDEX_TYPES(indices.scalar_type(), "indices", [&] {
      AT_DISPATCH_V2(
          result.scalar_type(),
          "embedding_backward_add",
          AT_WRAP([&] { run_as<scalar_t, index_t>(); }),
          AT_EXPAND(AT_FLOATING_TYPES),
          at::kBFloat16,
          at::kHalf);
    });
  }

 private:
  // Which rows of `grad` go to which row of the table, in the order of that.
  template <typename Index>
  std::pair<const int64_t*, const int64_t*> sorted(const Index* index) const {
    int64_t* begin = order.mutable_data_ptr<int64_t>();
    int64_t* end = begin;
    for (int64_t i = 0; i < indices.numel(); ++i) {
      if (index[i] != padding && index[i] >= 0 && index[i] < result.size(0)) {
        *end++ = i;
      }
    }
    std::sort(begin, end, [index](int64_t a, int64_t b) {
      return std::pair(index[a], a) < std::pair(index[b], b);
    });
    return {begin, end};
  }

  template <typename T, typename Index>
  void run_as() const {
    const Index* index = indices.const_data_ptr<Index>();
    const auto [first, last] = sorted(index);
    const int64_t width = result.size(1);
    const T* rows = grad.const_data_ptr<T>();
    const T* from = other.const_data_ptr<T>();
    T* into = result.mutable_data_ptr<T>();
    const int64_t grain =
        std::max<int64_t>(1, kLeastElements / std::max<int64_t>(width, 1));
    at::parallel_for(
        0,
        result.size(0),
        grain,
        [&, first = first, last = last](auto begin, auto end) {
          const int64_t* here = std::lower_bound(
              first, last, begin, [index](int64_t i, int64_t row) {
                return index[i] < row;
              });
          for (int64_t row = begin; row < end; ++row) {
            const int64_t* next = here;
            while (next != last && index[*next] == row) {
              ++next;
            }
            const T* before = from + row * width;
            // Most rows of a large table get nothing.
            if (here != next || from != into ||
                has_negative_zero(before, width)) {
              add_rows(rows, {here, next}, width, before, into + row * width);
            }
            here = next;
          }
        });
  }
};

}  // namespace

Kernel bind_fused_kernel(const KernelArguments& arguments) {
  if (arguments.node.op == "weft.cross_entropy_backward") {
    return [kernel = std::make_shared<CrossEntropyBackward>(arguments)](
               const StepContext&) { kernel->run(); };
  }
  if (arguments.node.op == "weft.embedding_backward_add") {
    EmbeddingBackwardAdd kernel{
        tensor_at(arguments, 0),
        tensor_at(arguments, 1),
        tensor_at(arguments, 2),
        arguments.results.front(),
        work_memory(arguments, at::kLong),
        int_arg(arguments.node, 3, -1)};
    return [kernel = std::move(kernel)](const StepContext&) { kernel.run(); };
  }
  if (arguments.node.op == "weft.mm_add") {
    return [sum = tensor_at(arguments, 0),
            one = tensor_at(arguments, 1),
            other = tensor_at(arguments, 2),
            result = arguments.results.front()](const StepContext&) {
      if (result.const_data_ptr() != sum.const_data_ptr()) {
        result.copy_(sum);
      }
      result.addmm_(one, other);
    };
  }
  return {};
}

}  // namespace weft
