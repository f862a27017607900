// SPDX-License-Identifier: Apache-2.0
// Random numbers that a step draws the same in every step: from a generator
// that it makes or seeds itself. They are constants of the step, where other
// random numbers are Weft's own, drawn anew by every step.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

class ScriptGenerators {
 public:
  // `earlier` is from a capture of the same step just before, if any. Of a
  // generator that outlives the step, only a second capture tells whether the
  // step seeds it anew.
  explicit ScriptGenerators(const ScriptGenerators* earlier = nullptr);

  // Whether numbers drawn from the generator now are the same in every step;
  // without one, from PyTorch's default generator.
  bool is_seeded_by_step(const std::optional<at::Generator>& generator);

  // Whether a generator that the step has drawn from is held by others than
  // this. To be asked when the step's Python has ended.
  bool has_lasting() const;

  // While it lives, what becomes of PyTorch's default generator is the doing of
  // a call that was asked for by the step, and not of the step's own seeding.
  class DuringCall {
   public:
    explicit DuringCall(ScriptGenerators& generators);
    ~DuringCall();
    DuringCall(const DuringCall&) = delete;
    DuringCall& operator=(const DuringCall&) = delete;

   private:
    ScriptGenerators& generators_;
    bool is_as_expected_;
  };

 private:
  using State = at::mt19937_data_pod;
  struct Drawn {
    at::Generator generator;
    // When the step first drew from it.
    State first = {};
    bool is_lasting() const;
  };

  // In the order in which the step first drew from them.
  std::vector<Drawn> drawn_;
  std::vector<std::optional<State>> earlier_lasting_;
  // Of the default generator, as long as the step does not touch it.
  State expected_ = {};
};

}  // namespace weft
