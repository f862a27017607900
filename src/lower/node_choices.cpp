// SPDX-License-Identifier: Apache-2.0
#include "lower/node_choices.h"

#include <algorithm>
#include <functional>
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
  void add(const TensorType& type) {
    for (const int64_t size : type.sizes) {
      add(static_cast<uint64_t>(size));
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

// The options that say what the node does: every layer draws random numbers of
// its own.
std::vector<const Option*> telling_options(const Node& node) {
  std::vector<const Option*> out;
  for (const Option& option : node.options) {
    if (option.name != kRngOption) {
      out.push_back(&option);
    }
  }
  return out;
}

}  // namespace

bool NodeChoices::are_alike(const Arg& a, const Arg& b) const {
  const auto* value = std::get_if<ValueId>(&a.data);
  const auto* other_value = std::get_if<ValueId>(&b.data);
  if (value != nullptr && other_value != nullptr) {
    return function_[*value].type == function_[*other_value].type;
  }
  const auto* list = std::get_if<Arg::List>(&a.data);
  const auto* other_list = std::get_if<Arg::List>(&b.data);
  if (list != nullptr && other_list != nullptr) {
    return std::equal(
        list->begin(),
        list->end(),
        other_list->begin(),
        other_list->end(),
        [&](const Arg& x, const Arg& y) { return are_alike(x, y); });
  }
  return a == b;
}

bool NodeChoices::are_alike(const Node& a, const Node& b) const {
  const std::vector<const Option*> options = telling_options(a);
  const std::vector<const Option*> others = telling_options(b);
  return a.op == b.op &&
         std::equal(
             a.args.begin(),
             a.args.end(),
             b.args.begin(),
             b.args.end(),
             [&](const Arg& x, const Arg& y) { return are_alike(x, y); }) &&
         std::equal(
             options.begin(),
             options.end(),
             others.begin(),
             others.end(),
             [&](const Option* x, const Option* y) {
               return x->name == y->name && are_alike(x->value, y->value);
             }) &&
         std::equal(
             a.results.begin(),
             a.results.end(),
             b.results.begin(),
             b.results.end(),
             [&](ValueId x, ValueId y) {
               return function_[x].type == function_[y].type;
             });
}

bool NodeChoices::are_alike(const Situation& a, const Situation& b) const {
  return a.operands == b.operands && a.results == b.results &&
         a.may_expand == b.may_expand &&
         are_alike(
             function_.nodes[index(a.node)], function_.nodes[index(b.node)]);
}

uint64_t NodeChoices::digest(const Situation& situation) const {
  const Node& node = function_.nodes[index(situation.node)];
  SituationDigest digest;
  digest.add(std::string_view(node.op));
  for (const ValueId result : node.results) {
    digest.add(function_[result].type);
  }
  for (const Situation::Operand& operand : situation.operands) {
    digest.add(operand.rests);
    digest.add(static_cast<uint64_t>(operand.moved.size()));
  }
  for (const Situation::Result& result : situation.results) {
    if (result.wanted) {
      digest.add(*result.wanted);
    }
  }
  return digest.hash();
}

const NodeChoice* NodeChoices::find(const Situation& situation) const {
  const auto [begin, end] = by_digest_.equal_range(digest(situation));
  for (auto at = begin; at != end; ++at) {
    if (are_alike(at->second->situation, situation)) {
      return &at->second->choice;
    }
  }
  return nullptr;
}

const NodeChoice& NodeChoices::add(Situation situation, NodeChoice choice) {
  const uint64_t hash = digest(situation);
  known_.push_back({std::move(situation), std::move(choice)});
  by_digest_.emplace(hash, &known_.back());
  return known_.back().choice;
}

}  // namespace weft
