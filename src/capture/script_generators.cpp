// SPDX-License-Identifier: Apache-2.0
#include "capture/script_generators.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

namespace weft {
namespace {

at::mt19937_data_pod state_of(const at::Generator& generator) {
  return at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
}

at::mt19937_data_pod default_state() {
  return state_of(at::detail::getDefaultCPUGenerator());
}

bool are_equal(const at::mt19937_data_pod& a, const at::mt19937_data_pod& b) {
  return a.seed_ == b.seed_ && a.left_ == b.left_ && a.next_ == b.next_ &&
         a.seeded_ == b.seeded_ && a.state_ == b.state_;
}

}  // namespace

ScriptGenerators::ScriptGenerators(const ScriptGenerators* earlier)
    : expected_(default_state()) {
  if (earlier != nullptr) {
    for (const Drawn& each : earlier->drawn_) {
      earlier_lasting_.push_back(
          each.is_lasting() ? std::optional(each.first) : std::nullopt);
    }
  }
}

bool ScriptGenerators::Drawn::is_lasting() const {
  return generator.getIntrusivePtr().use_count() > 1;
}

bool ScriptGenerators::is_seeded_by_step(
    const std::optional<at::Generator>& generator) {
  if (!generator || *generator == at::detail::getDefaultCPUGenerator()) {
    return !are_equal(default_state(), expected_);
  }
  const auto known =
      std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& each) {
        return each.generator == *generator;
      });
  const auto place = static_cast<size_t>(known - drawn_.begin());
  if (known == drawn_.end()) {
    drawn_.push_back({*generator, state_of(*generator)});
  }
  const bool was_lasting =
      place < earlier_lasting_.size() && earlier_lasting_[place];
  return !was_lasting ||
         are_equal(*earlier_lasting_[place], drawn_[place].first);
}

bool ScriptGenerators::has_lasting() const {
  return std::any_of(drawn_.begin(), drawn_.end(), [](const Drawn& each) {
    return each.is_lasting();
  });
}

ScriptGenerators::DuringCall::DuringCall(ScriptGenerators& generators)
    : generators_(generators),
      is_as_expected_(are_equal(default_state(), generators.expected_)) {}

ScriptGenerators::DuringCall::~DuringCall() {
  if (is_as_expected_) {
    generators_.expected_ = default_state();
  }
}

}  // namespace weft
