// SPDX-License-Identifier: Apache-2.0
#include "execute/optimizer_kernel.h"

#include "base/error.h"
#include "execute/optimizer_loops.h"
#include "execute/optimizer_settings.h"
#include "execute/optimizer_tensors.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <memory>

namespace weft {
namespace {

// Elements whose intermediate results stay in a core's cache.
constexpr int64_t kBlockElements = 16384;
// Fewer are not worth a thread of their own.
constexpr int64_t kGrainElements = 32768;

// PyTorch chose its kernels by this too.
bool rounds_once() {
  const std::string capability = at::get_cpu_capability();
  return capability == "AVX2" || capability == "AVX512";
}

void square_roots(const float* from, float* to, int64_t count) {
  const auto view = [&](const float* data) {
    // Only `to` is written.
    return at::for_blob(const_cast<float*>(data), {count})
        .options(at::kFloat)
        .make_tensor();
  };
  at::Tensor roots = view(to);
  at::sqrt_out(roots, view(from));
}

// A number that lies on the CPU is read and written where it lies: every
// parameter of a model has some, and a small one is updated in no more time
// than the dispatcher takes.
double number_in(const at::Tensor& scalar) {
  if (scalar.is_cpu() && scalar.scalar_type() == at::kDouble) {
    return *scalar.const_data_ptr<double>();
  }
  if (scalar.is_cpu() && scalar.scalar_type() == at::kFloat) {
    return *scalar.const_data_ptr<float>();
  }
  return scalar.item<double>();
}

void put_number(const at::Tensor& scalar, double value) {
  if (scalar.is_cpu() && scalar.scalar_type() == at::kFloat) {
    *scalar.mutable_data_ptr<float>() = static_cast<float>(value);
  } else {
    scalar.fill_(value);
  }
}

// The same memory seen the same way.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

// Elements of both lie at the same distances, and without gaps.
bool lies_alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_non_overlapping_and_dense() || a.sizes() != b.sizes()) {
    return false;
  }
  for (int64_t dim = 0; dim < a.dim(); ++dim) {
    if (a.size(dim) > 1 && a.stride(dim) != b.stride(dim)) {
      return false;
    }
  }
  return true;
}

// The parameter and the states come out again, the gradient does not.
size_t operand_of(size_t result) { return result == 0 ? 0 : result + 1; }

// Of a complex parameter torch.optim updates the real and the imaginary parts
// as numbers of their own, but for SGD.
bool has_parts(const OptimizerSettings& settings) {
  return settings.kind != OptimizerKind::Sgd;
}

void take_parts(std::vector<at::Tensor>& tensors) {
  for (at::Tensor& tensor : tensors) {
    if (tensor.is_complex()) {
      tensor = at::view_as_real(tensor);
    }
  }
}

class OptimizerKernel {
 public:
  explicit OptimizerKernel(KernelArguments arguments)
      : settings_(optimizer_settings(arguments.function, arguments.node)),
        operands_(std::move(arguments.operands)),
        results_(std::move(arguments.results)),
        rounds_once_(rounds_once()) {
    WEFT_CHECK(
        operands_.size() ==
            settings_.state_count + 3 + (settings_.has_skip ? 1 : 0) &&
        results_.size() == settings_.state_count + 1);
    if (has_parts(settings_)) {
      take_parts(operands_);
      take_parts(results_);
    }
    bind_tensors();
  }

  void run() {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    if (settings_.has_skip && number_in(operands_.back()) != 0) {
      keep();
      return;
    }
    const double lr = number_in(operands_[settings_.state_count + 2]);
    double step = 0;
    if (settings_.has_step) {
      step = number_in(operands_[settings_.state_count + 1]) + 1;
    }
    for (const auto& [from, to] : copies_in_) {
      to.copy_(from);
    }
    if (uses_loop_) {
      run_loop(lr, step);
    } else if (is_blocked_) {
      run_blocks(lr, step);
    } else {
      run_whole(lr, step);
    }
    for (const auto& [from, to] : copies_out_) {
      to.copy_(from);
    }
    if (settings_.has_step) {
      put_number(results_.back(), step);
    }
  }

 private:
  size_t tensor_states() const {
    return settings_.state_count - (settings_.has_step ? 1 : 0);
  }

  // `in_` are the parameter, the gradient and the states, `out_` the parameter
  // and the states: the tensors given, or ones of ours that lie like the
  // parameter.
  void bind_tensors() {
    is_written_over_ = written_over(0);
    // A loop writes the parameter where it reads nothing any more, but a state
    // before it has read all the others.
    const std::vector<bool> by_states = written_over(1);
    uses_loop_ =
        has_loop(settings_) && !settings_.fused &&
        std::find(by_states.begin(), by_states.end(), true) == by_states.end();
    for (size_t i = 0; i < tensor_states() + 2; ++i) {
      uses_loop_ = uses_loop_ && operands_[i].scalar_type() == at::kFloat;
    }
    is_blocked_ = has_loop(settings_) && !settings_.fused && !uses_loop_;
    const bool aligns = uses_loop_ || is_blocked_;
    const at::Tensor like =
        operands_[0].is_non_overlapping_and_dense()
            ? operands_[0]
            : at::empty_like(operands_[0], at::MemoryFormat::Contiguous);
    for (size_t i = 0; i < tensor_states() + 2; ++i) {
      in_.push_back(aligned(operands_[i], like, aligns));
      if (!is_same(in_.back(), operands_[i])) {
        copies_in_.emplace_back(operands_[i], in_.back());
      }
    }
    for (size_t i = 0; i < tensor_states() + 1; ++i) {
      if (is_same(results_[i], operands_[operand_of(i)])) {
        out_.push_back(in_[operand_of(i)]);
      } else {
        out_.push_back(aligned(results_[i], like, aligns));
      }
      if (!is_same(out_.back(), results_[i])) {
        copies_out_.emplace_back(out_.back(), results_[i]);
      }
    }
  }

  // By operand: whether one of the results from number `first` on lies there
  // that is not its own new value. (The parameter's does where the gradient
  // was, when the old parameter is still needed.)
  std::vector<bool> written_over(size_t first) const {
    std::vector<bool> is_written(operands_.size(), false);
    for (size_t i = first; i < results_.size(); ++i) {
      for (size_t operand = 0; operand < operands_.size(); ++operand) {
        if (operand != operand_of(i) &&
            results_[i].const_data_ptr() ==
                operands_[operand].const_data_ptr()) {
          is_written[operand] = true;
        }
      }
    }
    return is_written;
  }

  // Tensors as the first operands are, with copies of those that a result of
  // another is written over.
  std::vector<at::Tensor> safe(std::vector<at::Tensor> tensors) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (is_written_over_[i]) {
        tensors[i] = tensors[i].clone();
      }
    }
    return tensors;
  }

  static at::Tensor aligned(
      const at::Tensor& given, const at::Tensor& like, bool aligns) {
    if (!aligns || lies_alike(given, like)) {
      return given;
    }
    return at::empty_like(like, given.options());
  }

  void keep() { copy_apart(safe(operands_), results_); }

  void run_loop(double lr, double step) {
    at::parallel_for(
        0, in_[0].numel(), kGrainElements, [&](int64_t begin, int64_t end) {
          OptimizerPointers pointers;
          for (size_t i = 0; i < in_.size(); ++i) {
            pointers.in[i] = in_[i].const_data_ptr<float>() + begin;
          }
          for (size_t i = 0; i < out_.size(); ++i) {
            pointers.out[i] = out_[i].mutable_data_ptr<float>() + begin;
          }
          optimizer_loop(
              settings_,
              lr,
              step,
              pointers,
              end - begin,
              rounds_once_,
              square_roots);
        });
  }

  static void copy_apart(
      const std::vector<at::Tensor>& in, const std::vector<at::Tensor>& out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const at::Tensor& before = in[operand_of(i)];
      if (!is_same(before, out[i])) {
        out[i].copy_(before);
      }
    }
  }

  // What is at hand after a block was copied to the results, changed in place.
  std::vector<at::Tensor> changed(
      const std::vector<at::Tensor>& in,
      const std::vector<at::Tensor>& out) const {
    const std::vector<at::Tensor> before = safe(in);
    copy_apart(before, out);
    std::vector<at::Tensor> tensors = {out[0], before[1]};
    tensors.insert(tensors.end(), out.begin() + 1, out.end());
    return tensors;
  }

  void run_blocks(double lr, double step) {
    const int64_t count = in_[0].numel();
    const auto blocks = [&](const std::vector<at::Tensor>& whole,
                            int64_t begin) {
      std::vector<at::Tensor> parts;
      for (const at::Tensor& tensor : whole) {
        parts.push_back(tensor.as_strided(
            {std::min(kBlockElements, count - begin)},
            {1},
            tensor.storage_offset() + begin));
      }
      return parts;
    };
    for (int64_t begin = 0; begin < count; begin += kBlockElements) {
      step_in_place(
          settings_,
          lr,
          step,
          changed(blocks(in_, begin), blocks(out_, begin)));
    }
  }

  void run_whole(double lr, double step) {
    const std::vector<at::Tensor> tensors = changed(in_, out_);
    if (settings_.fused) {
      fused_step_in_place(settings_, lr, step, tensors);
    } else {
      step_in_place(settings_, lr, step, tensors);
    }
  }

  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;

  const OptimizerSettings settings_;
  std::vector<at::Tensor> operands_;
  std::vector<at::Tensor> results_;
  const bool rounds_once_;
  // By operand.
  std::vector<bool> is_written_over_;
  bool uses_loop_ = false;
  bool is_blocked_ = false;
  std::vector<at::Tensor> in_;
  std::vector<at::Tensor> out_;
  Copies copies_in_;
  Copies copies_out_;
};

}  // namespace

Kernel bind_optimizer_kernel(KernelArguments arguments) {
  auto kernel = std::make_shared<OptimizerKernel>(std::move(arguments));
  return [kernel](const StepContext&) { kernel->run(); };
}

}  // namespace weft
