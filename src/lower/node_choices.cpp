// SPDX-License-Identifier: Apache-2.0
#include "lower/node_choices.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace weft {
namespace {

class SituationDigest {
 public:
  void add(uint64_t part) {
    hash_ = (hash_ ^ part) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
  }
  void add(std::string_view text) {
    add(static_cast<uint64_t>(std::hash<std::string_view>{}(text)));
  }
  void add(const Axes& axes) {
    add(static_cast<uint64_t>(axes.size()));
    for (const std::string& axis : axes) {
      add(std::string_view(axis));
    }
  }
  void add(const Layout& layout) {
    for (const Levels& levels : layout.dims) {
      add(static_cast<uint64_t>(levels.size()));
      for (const Level& level : levels) {
        add(static_cast<uint64_t>(level.size));
        add(level.axes);
      }
    }
    add(layout.partial);
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

uint64_t digest(const Situation& situation) {
  SituationDigest digest;
  digest.add(static_cast<uint64_t>(std::hash<const Rule*>{}(situation.rule)));
  for (const Situation::Operand& operand : situation.operands) {
    digest.add(*operand.rests);
    digest.add(static_cast<uint64_t>(operand.moved->size()));
  }
  for (const Situation::Result& result : situation.results) {
    if (result.wanted != nullptr) {
      digest.add(*result.wanted);
    }
  }
  return digest.hash();
}

bool are_alike(const Situation::Operand& a, const Situation::Operand& b) {
  return a.of_parameter == b.of_parameter && *a.rests == *b.rests &&
         *a.moved == *b.moved;
}

bool are_alike(const Situation::Result& a, const Situation::Result& b) {
  return a.is_for_update == b.is_for_update &&
         (a.wanted == nullptr) == (b.wanted == nullptr) &&
         (a.wanted == nullptr || *a.wanted == *b.wanted);
}

bool are_alike(const Situation& a, const Situation& b) {
  const auto all = [](const auto& x, const auto& y) {
    return std::equal(
        x.begin(),
        x.end(),
        y.begin(),
        y.end(),
        [](const auto& i, const auto& k) { return are_alike(i, k); });
  };
  return a.rule == b.rule && a.may_expand == b.may_expand &&
         all(a.operands, b.operands) && all(a.results, b.results);
}

}  // namespace

const NodeChoice* NodeChoices::find(const Situation& situation) const {
  const uint64_t hash = digest(situation);
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto [begin, end] = by_digest_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (are_alike(at->second->situation, situation)) {
      return &at->second->choice;
    }
  }
  return nullptr;
}

const NodeChoice& NodeChoices::add(
    const Situation& situation, NodeChoice choice) {
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  Known& known = known_.emplace_back(Known{situation, std::move(choice)});
  Situation& mine = known.situation;
  known.rests.reserve(mine.operands.size());
  known.moved.reserve(mine.operands.size());
  known.wanted.reserve(mine.results.size());
  for (Situation::Operand& operand : mine.operands) {
    operand.rests = &known.rests.emplace_back(*operand.rests);
    operand.moved = &known.moved.emplace_back(*operand.moved);
  }
  for (Situation::Result& result : mine.results) {
    std::optional<Layout>& wanted = known.wanted.emplace_back();
    if (result.wanted != nullptr) {
      wanted = *result.wanted;
      result.wanted = &*wanted;
    }
  }
  by_digest_.emplace(digest(mine), &known);
  return known.choice;
}

}  // namespace weft
