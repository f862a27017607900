// SPDX-License-Identifier: Apache-2.0
// Compiled with -O3 and -ffp-contract=off: what is rounded together is written
// as multiply_add, in the order of torch.optim's _single_tensor_* functions.
#include "execute/optimizer_loops.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>

#if defined(__x86_64__)
#define WEFT_TARGET_FMA __attribute__((target("avx2,fma")))
#else
#define WEFT_TARGET_FMA
#endif
#define WEFT_INLINE [[gnu::always_inline]] inline

namespace weft {
namespace {

// Roots of a block wait on the stack; smaller ones would spend their time in
// calls.
constexpr int64_t kBlockElements = 8192;

template <bool kFma>
WEFT_INLINE float multiply_add(float a, float b, float c) {
  if constexpr (kFma) {
    return __builtin_fmaf(a, b, c);
  } else {
    return a * b + c;
  }
}

// Tensor.lerp_ with a number as the weight.
template <bool kFma>
WEFT_INLINE float lerp(float start, float end, float weight) {
  const bool near_start = std::fabs(weight) < 0.5F;
  const float factor = near_start ? weight : weight - 1.0F;
  return multiply_add<kFma>(factor, end - start, near_start ? start : end);
}

float to_float(double value) { return static_cast<float>(value); }

// Numbers of one step; f32 where PyTorch's kernels take them as f32.
struct Numbers {
  explicit Numbers(const OptimizerSettings& s, double lr_now, double step)
      : sign(s.maximize ? -1.0F : 1.0F),
        weight_decay(to_float(s.weight_decay)),
        decay(to_float(s.weight_decay != 0 ? 1 - lr_now * s.weight_decay : 1)),
        negative_lr(to_float(-lr_now)),
        eps(to_float(s.eps)),
        beta1(to_float(s.beta1)),
        first_weight(to_float(1 - s.beta1)),
        beta2(to_float(s.beta2)),
        second_weight(to_float(1 - s.beta2)),
        momentum(to_float(s.momentum)),
        gradient_weight(to_float(1 - s.dampening)),
        is_first(s.has_step && step == 1) {
    if (s.kind == OptimizerKind::Adam) {
      const double correction1 = 1 - std::pow(s.beta1, step);
      const double correction2 = 1 - std::pow(s.beta2, step);
      negative_lr = to_float(-(lr_now / correction1));
      root_correction = to_float(std::pow(correction2, 0.5));
    } else if (s.kind == OptimizerKind::Adagrad) {
      negative_lr = to_float(-(lr_now / (1 + (step - 1) * s.lr_decay)));
    }
  }

  // Multiplying by 1 or -1 is exact, so one loop serves both.
  float sign;
  float weight_decay;
  // What a decoupled decay leaves of the parameter.
  float decay;
  float negative_lr;
  float eps;
  float beta1;
  float first_weight;
  float beta2;
  float second_weight;
  float momentum;
  float gradient_weight;
  float root_correction = 1;
  bool is_first;
};

// A struct of numbers by value: stores through the pointers must not make the
// compiler read them again. The moments; then, from their roots, the parameter.
template <bool kFma, bool kDecayed, bool kAmsgrad>
WEFT_INLINE void adam_moments(
    const Numbers n, const OptimizerPointers p, int64_t count) {
  const float* parameter = p.in[0];
  const float* gradient = p.in[1];
  const float* exp_avg = p.in[2];
  const float* exp_avg_sq = p.in[3];
  const float* maximum = p.in[4];
  float* new_exp_avg = p.out[1];
  float* new_exp_avg_sq = p.out[2];
  float* new_maximum = p.out[3];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float g = n.sign * gradient[i];
    if constexpr (kDecayed) {
      g = multiply_add<kFma>(parameter[i], n.weight_decay, g);
    }
    const float v =
        multiply_add<kFma>(n.second_weight * g, g, exp_avg_sq[i] * n.beta2);
    new_exp_avg[i] = lerp<kFma>(exp_avg[i], g, n.first_weight);
    new_exp_avg_sq[i] = v;
    if constexpr (kAmsgrad) {
      // As torch.maximum: not a number wins.
      const float before = maximum[i];
      new_maximum[i] = before > v || before != before ? before : v;
    }
  }
}

WEFT_INLINE void adam_parameter(
    const Numbers n,
    float decay,
    const OptimizerPointers p,
    const float* roots,
    int64_t count) {
  const float* parameter = p.in[0];
  const float* exp_avg = p.out[1];
  float* new_parameter = p.out[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float denominator = roots[i] / n.root_correction + n.eps;
    new_parameter[i] =
        parameter[i] * decay + n.negative_lr * exp_avg[i] / denominator;
  }
}

template <bool kFma>
WEFT_INLINE void adam_loop(
    const OptimizerSettings& s,
    const Numbers& n,
    const OptimizerPointers& p,
    int64_t count,
    RootFunction root) {
  const bool decoupled = s.decoupled_weight_decay;
  const bool decayed = s.weight_decay != 0 && !decoupled;
  if (decayed && s.amsgrad) {
    adam_moments<kFma, true, true>(n, p, count);
  } else if (decayed) {
    adam_moments<kFma, true, false>(n, p, count);
  } else if (s.amsgrad) {
    adam_moments<kFma, false, true>(n, p, count);
  } else {
    adam_moments<kFma, false, false>(n, p, count);
  }
  alignas(64) float roots[kBlockElements];
  root(p.out[s.amsgrad ? 3 : 2], roots, count);
  adam_parameter(n, decoupled ? n.decay : 1.0F, p, roots, count);
}

template <bool kFma, bool kDecayed, bool kMomentum, bool kNesterov>
WEFT_INLINE void sgd(
    const Numbers n, const OptimizerPointers p, int64_t count) {
  const float* parameter = p.in[0];
  const float* gradient = p.in[1];
  const float* momentum_buffer = p.in[2];
  float* new_parameter = p.out[0];
  float* new_momentum_buffer = p.out[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float g = n.sign * gradient[i];
    const float old = parameter[i];
    if constexpr (kDecayed) {
      g = multiply_add<kFma>(old, n.weight_decay, g);
    }
    if constexpr (kMomentum) {
      const float later = multiply_add<kFma>(
          g, n.gradient_weight, momentum_buffer[i] * n.momentum);
      const float buffer = n.is_first ? g : later;
      new_momentum_buffer[i] = buffer;
      g = kNesterov ? multiply_add<kFma>(buffer, n.momentum, g) : buffer;
    }
    new_parameter[i] = multiply_add<kFma>(g, n.negative_lr, old);
  }
}

template <bool kFma, bool kDecayed>
WEFT_INLINE void sgd_loop(
    const OptimizerSettings& s,
    const Numbers& n,
    const OptimizerPointers& p,
    int64_t count) {
  if (s.momentum == 0) {
    sgd<kFma, kDecayed, false, false>(n, p, count);
  } else if (s.nesterov) {
    sgd<kFma, kDecayed, true, true>(n, p, count);
  } else {
    sgd<kFma, kDecayed, true, false>(n, p, count);
  }
}

template <bool kFma, bool kDecayed>
WEFT_INLINE void adagrad_loop(
    const Numbers n,
    const OptimizerPointers p,
    int64_t count,
    RootFunction root) {
  const float* parameter = p.in[0];
  const float* gradient = p.in[1];
  const float* sum = p.in[2];
  float* new_parameter = p.out[0];
  float* new_sum = p.out[1];
  const auto gradient_at = [=](int64_t i) {
    const float g = n.sign * gradient[i];
    return kDecayed ? multiply_add<kFma>(parameter[i], n.weight_decay, g) : g;
  };
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient_at(i);
    new_sum[i] = multiply_add<kFma>(g, g, sum[i]);
  }
  alignas(64) float roots[kBlockElements];
  root(new_sum, roots, count);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    new_parameter[i] =
        parameter[i] + n.negative_lr * gradient_at(i) / (roots[i] + n.eps);
  }
}

template <bool kFma>
WEFT_INLINE void lion(
    const Numbers n, const OptimizerPointers p, int64_t count) {
  const float* parameter = p.in[0];
  const float* gradient = p.in[1];
  const float* exp_avg = p.in[2];
  float* new_parameter = p.out[0];
  float* new_exp_avg = p.out[1];
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float g = n.sign * gradient[i];
    const float m = exp_avg[i];
    const float mix = multiply_add<kFma>(g, n.first_weight, m * n.beta1);
    const float direction =
        static_cast<float>(mix > 0) - static_cast<float>(mix < 0);
    new_parameter[i] =
        multiply_add<kFma>(direction, n.negative_lr, parameter[i] * n.decay);
    new_exp_avg[i] = multiply_add<kFma>(g, n.second_weight, m * n.beta2);
  }
}

template <bool kFma>
WEFT_INLINE void any_loop(
    const OptimizerSettings& s,
    const Numbers& n,
    const OptimizerPointers& p,
    int64_t count,
    RootFunction root) {
  const bool decayed = s.weight_decay != 0;
  switch (s.kind) {
    case OptimizerKind::Sgd:
      return decayed ? sgd_loop<kFma, true>(s, n, p, count)
                     : sgd_loop<kFma, false>(s, n, p, count);
    case OptimizerKind::Adam:
      return adam_loop<kFma>(s, n, p, count, root);
    case OptimizerKind::Adagrad:
      return decayed ? adagrad_loop<kFma, true>(n, p, count, root)
                     : adagrad_loop<kFma, false>(n, p, count, root);
    case OptimizerKind::Lion:
      return lion<kFma>(n, p, count);
    case OptimizerKind::Adafactor:
      break;
  }
}

WEFT_TARGET_FMA void fused_loop(
    const OptimizerSettings& s,
    const Numbers& n,
    const OptimizerPointers& p,
    int64_t count,
    RootFunction root) {
  any_loop<true>(s, n, p, count, root);
}

void plain_loop(
    const OptimizerSettings& s,
    const Numbers& n,
    const OptimizerPointers& p,
    int64_t count,
    RootFunction root) {
  any_loop<false>(s, n, p, count, root);
}

}  // namespace

bool has_loop(const OptimizerSettings& settings) {
  return settings.kind != OptimizerKind::Adafactor;
}

void optimizer_loop(
    const OptimizerSettings& settings,
    double lr,
    double step,
    const OptimizerPointers& pointers,
    int64_t count,
    bool fused_rounding,
    RootFunction root) {
  WEFT_CHECK(has_loop(settings));
  const Numbers numbers(settings, lr, step);
  const auto loop = fused_rounding ? fused_loop : plain_loop;
  for (int64_t begin = 0; begin < count; begin += kBlockElements) {
    OptimizerPointers block = pointers;
    for (const float*& pointer : block.in) {
      pointer = pointer == nullptr ? nullptr : pointer + begin;
    }
    for (float*& pointer : block.out) {
      pointer = pointer == nullptr ? nullptr : pointer + begin;
    }
    loop(
        settings,
        numbers,
        block,
        std::min(kBlockElements, count - begin),
        root);
  }
}

}  // namespace weft
