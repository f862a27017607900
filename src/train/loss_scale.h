// SPDX-License-Identifier: Apache-2.0
// Dynamic loss scaling, by the rule of torch.amp.GradScaler: gradients that do
// not fit a 16 bit float make the scale smaller, a run of good steps makes it
// larger.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct LossScaleOptions {
  double initial = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  // Good steps in a row before the scale grows.
  int64_t growth_interval = 2000;

  bool operator==(const LossScaleOptions&) const = default;
};

class LossScale {
 public:
  // Throws UserError for options that make no sense.
  explicit LossScale(const LossScaleOptions& options = {});

  // By which the loss is multiplied, and the gradients divided.
  double scale() const { return scale_; }

  // After each step: whether all gradients, on all ranks, were finite. The
  // optimizer must not use those of a step that were not. The scale is kept to
  // 32 bits as torch does, and never grows to infinity.
  void update(bool is_finite);

  // "scale=65536.0 good_steps=12": what a checkpoint keeps. restore throws
  // UserError naming `source` when the text is another.
  std::string print_state() const;
  void restore(std::string_view text, const std::string& source);

 private:
  LossScaleOptions options_;
  double scale_;
  int64_t good_steps_ = 0;
};

}  // namespace weft
