// SPDX-License-Identifier: Apache-2.0
#include "plan/tensor_split.h"

#include "base/error.h"
#include "ops/op_def.h"
#include "ops/rule_memo.h"
#include "ops/sorted_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace weft {
namespace {

// Where a split by columns goes.
struct Course {
  bool is_open = true;
  // Products in whose sums it ends.
  int ends = 0;
  // Where it stopped at a factor that cannot be split: that many sections would
  // leave the factor whole.
  int64_t sections = 1;
  std::map<ValueId, Spot> spots;
  // Nodes that it reached.
  std::vector<size_t> nodes;
};

class TensorSplitter {
 public:
  TensorSplitter(const StepRules& rules, int64_t ways, bool vocabulary)
      : rules_(rules),
        step_(rules.step()),
        ways_(ways),
        vocabulary_(vocabulary),
        parameters_(step_.values.size()),
        spots_(step_.values.size()),
        is_last_(step_.nodes.size(), true),
        is_given_(step_.values.size(), false) {
    for (const Output& output : step_.outputs) {
      if (output.kind != OutputKind::Buffer) {
        is_given_[index(output.value)] = true;
      }
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      products_.push_back(
          step_.nodes[i].phase == Phase::Forward ? product_of(rules_, i)
                                                 : std::nullopt);
    }
    find_last();
  }

  TensorSplit run() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (const auto& product = products_[i]) {
        visit(i, *product);
      }
    }
    if (vocabulary_) {
      split_tables();
    }
    return {std::move(parameters_), std::move(spots_)};
  }

 private:
  // Nodes of forward after which no product with a parameter comes.
  void find_last() {
    for (size_t i = step_.nodes.size(); i-- > 0;) {
      for (const ValueId result : step_.nodes[i].results) {
        for (const NodeId user : rules_.users(result)) {
          if (step_.nodes[index(user)].phase == Phase::Forward &&
              (products_[index(user)] || !is_last_[index(user)])) {
            is_last_[i] = false;
          }
        }
      }
    }
  }

  bool fits(int64_t size) const { return size >= ways_; }

  ValueId operand(size_t node, int position) const {
    return operands(step_.nodes[node])[static_cast<size_t>(position)];
  }

  void visit(size_t node, const Product& product) {
    const ValueId weight = rules_.parameter(operand(node, product.weight));
    if (const auto& decided = parameters_[index(weight)]) {
      follow_decided(node, product, *decided);
      return;
    }
    if (split_rows(node, product)) {
      return;
    }
    for (const int factor : product.made) {
      if (split_columns(node, factor)) {
        return;
      }
    }
    if (vocabulary_ && is_last_[node]) {
      split_last(node, product);
    }
  }

  // A parameter that another product uses too.
  void follow_decided(size_t node, const Product& product, const Spot& spot) {
    const auto here = rules_.in_view(operand(node, product.weight), spot);
    const auto factor =
        here ? factor_at(rules_.rule(node), {false, product.weight}, *here)
             : std::nullopt;
    if (factor) {
      keep(follow(node, *factor, /*is_strict=*/false));
    }
  }

  bool split_rows(size_t node, const Product& product) {
    const auto& spot = spots_[index(operand(node, product.other))];
    const auto factor =
        spot ? factor_at(rules_.rule(node), {false, product.other}, *spot)
             : std::nullopt;
    if (!factor || std::find(
                       product.contracted.begin(),
                       product.contracted.end(),
                       factor->factor) == product.contracted.end()) {
      return false;
    }
    decide(node, product.weight, *factor);
    return true;
  }

  bool split_columns(size_t node, int factor) {
    const int64_t size =
        rules_.rule(node).factors[static_cast<size_t>(factor)].size;
    // Sections only grow, and few are ever needed.
    for (int64_t sections = 1; fits(size / sections) && size % sections == 0;) {
      const Course course =
          follow(node, {factor, sections, size / sections}, true);
      if (course.is_open && course.ends > 0) {
        keep(course);
        return true;
      }
      if (course.sections <= sections) {
        return false;
      }
      sections = course.sections;
    }
    return false;
  }

  void split_last(size_t node, const Product& product) {
    const int factor = product.made.front();
    const int64_t size =
        rules_.rule(node).factors[static_cast<size_t>(factor)].size;
    if (size / ways_ >= kLeastRows) {
      keep(follow(node, {factor, 1, size}, /*is_strict=*/false));
    }
  }

  void split_tables() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      const Rule& rule = rules_.rule(i);
      const std::vector<ValueId> read = operands(step_.nodes[i]);
      if (step_.nodes[i].phase != Phase::Forward ||
          !std::any_of(read.begin(), read.end(), [this](ValueId value) {
            return rules_.is_from_batch(value);
          })) {
        continue;
      }
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        if (rule.factors[f].kind != FactorKind::Lookup ||
            rule.factors[f].size / ways_ < kLeastRows) {
          continue;
        }
        for (size_t o = 0; o < read.size(); ++o) {
          decide(
              i,
              static_cast<int>(o),
              {static_cast<int>(f), 1, rule.factors[f].size});
        }
      }
    }
  }

  // Splits the parameter of which the operand is a view, if it has the factor.
  void decide(size_t node, int position, const FactorSpot& factor) {
    const ValueId value = operand(node, position);
    const ValueId parameter = rules_.parameter(value);
    if (parameter == ValueId::None || parameters_[index(parameter)]) {
      return;
    }
    const auto here = spot_at(rules_.rule(node), {false, position}, factor);
    if (here) {
      parameters_[index(parameter)] = rules_.in_parameter(value, *here);
    }
  }

  void keep(const Course& course) {
    for (const auto& [value, spot] : course.spots) {
      spots_[index(value)] = spot;
    }
    for (const size_t node : course.nodes) {
      const Rule& rule = rules_.rule(node);
      for (size_t r = 0; r < step_.nodes[node].results.size(); ++r) {
        const auto spot = course.spots.find(step_.nodes[node].results[r]);
        const auto factor =
            spot != course.spots.end()
                ? factor_at(rule, {true, static_cast<int>(r)}, spot->second)
                : std::nullopt;
        if (!factor) {
          continue;
        }
        const size_t count = operands(step_.nodes[node]).size();
        for (size_t o = 0; o < count; ++o) {
          decide(node, static_cast<int>(o), *factor);
        }
      }
    }
  }

  // From a factor of a product's result through all readers in forward.
  Course follow(size_t node, const FactorSpot& from, bool is_strict) const {
    Course course;
    std::set<size_t> next;
    if (!reach(course, node, from, next)) {
      course.is_open = false;
      return course;
    }
    while (!next.empty() && (course.is_open || !is_strict)) {
      const size_t reader = *next.begin();
      next.erase(next.begin());
      pass(course, reader, from, next);
    }
    return course;
  }

  // Sets the results of a node that have the factor; false when one lacks it.
  bool reach(
      Course& course,
      size_t node,
      const FactorSpot& factor,
      std::set<size_t>& next) const {
    const Rule& rule = rules_.rule(node);
    bool is_everywhere = true;
    for (size_t r = 0; r < step_.nodes[node].results.size(); ++r) {
      const TensorPlace place = {true, static_cast<int>(r)};
      const ValueId result = step_.nodes[node].results[r];
      if (!has_factor(rule, place, factor.factor)) {
        is_everywhere =
            is_everywhere && !is_summed(rule, factor.factor, place.tensor);
        continue;
      }
      if (const auto spot = spot_at(rule, place, factor)) {
        course.spots[result] = *spot;
      } else {
        course.spots.erase(result);
      }
      for (const NodeId user : rules_.users(result)) {
        if (step_.nodes[index(user)].phase == Phase::Forward) {
          next.insert(index(user));
        }
      }
      // What the user is given must be whole.
      is_everywhere = is_everywhere && !is_given_[index(result)];
    }
    course.nodes.push_back(node);
    return is_everywhere;
  }

  void pass(
      Course& course,
      size_t node,
      const FactorSpot& from,
      std::set<size_t>& next) const {
    const Rule& rule = rules_.rule(node);
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t o = 0; o < read.size(); ++o) {
      const auto found = course.spots.find(read[o]);
      if (found == course.spots.end()) {
        continue;
      }
      const Spot spot = found->second;
      const auto factor = factor_at(rule, {false, static_cast<int>(o)}, spot);
      if (!factor) {
        course.is_open = false;
        continue;
      }
      // A split that reaches beyond the factor is one of the factor only if it
      // divides.
      const bool divides =
          factor->size == spot.size || factor->size % ways_ == 0;
      const Factor& what = rule.factors[static_cast<size_t>(factor->factor)];
      if (what.kind != FactorKind::Free || !divides || !fits(factor->size)) {
        course.is_open = false;
        course.sections =
            std::max(course.sections, from.sections * factor->size);
        continue;
      }
      const auto& product = products_[node];
      if (product && static_cast<int>(o) == product->other &&
          std::find(
              product->contracted.begin(),
              product->contracted.end(),
              factor->factor) != product->contracted.end()) {
        ++course.ends;
        continue;
      }
      course.is_open = reach(course, node, *factor, next) && course.is_open;
    }
  }

  const StepRules& rules_;
  const Function& step_;
  const int64_t ways_;
  const bool vocabulary_;
  // What is decided, and where the split is found in forward.
  Spots parameters_;
  Spots spots_;
  std::vector<std::optional<Product>> products_;
  std::vector<bool> is_last_;
  // By value: the step returns it, and not as a buffer.
  std::vector<bool> is_given_;
};

}  // namespace

TensorSplit tensor_split(
    const StepRules& rules, int64_t ways, bool vocabulary) {
  return TensorSplitter(rules, ways, vocabulary).run();
}

namespace {

class ExpertSplitter {
 public:
  ExpertSplitter(const StepRules& rules, int64_t ways)
      : rules_(rules),
        step_(rules.step()),
        ways_(ways),
        parameters_(step_.values.size()) {}

  Spots run() {
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (step_.nodes[i].phase != Phase::Forward) {
        continue;
      }
      if (const auto product = product_of(rules_, i)) {
        if (!product->shared.empty()) {
          split(i, product->weight, product->shared.front());
        }
      } else {
        split_lookup(i);
      }
    }
    split_sorted();
    return std::move(parameters_);
  }

 private:
  // The parameter of which the operand is a view, along the factor.
  void split(size_t node, int position, int factor) {
    const Rule& rule = rules_.rule(node);
    const int64_t size = rule.factors[static_cast<size_t>(factor)].size;
    const ValueId value =
        operands(step_.nodes[node])[static_cast<size_t>(position)];
    if (const auto here = spot_at(rule, {false, position}, {factor, 1, size})) {
      split(value, *here);
    }
  }

  void split(ValueId value, const Spot& here) {
    const ValueId parameter = rules_.parameter(value);
    const auto spot = rules_.in_parameter(value, here);
    if (parameter != ValueId::None && spot &&
        is_alone(*spot, step_[parameter].type) && spot->size % ways_ == 0) {
      parameters_[index(parameter)] = spot;
    }
  }

  // Matrices that tokens look up, each by its expert, and multiply with.
  void split_lookup(size_t node) {
    const Rule& rule = rules_.rule(node);
    const std::vector<ValueId> read = operands(step_.nodes[node]);
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (rule.factors[f].kind == FactorKind::Lookup && read.size() == 2 &&
          step_[read[0]].type.sizes.size() == 3 &&
          rules_.is_from_batch(read[1]) &&
          is_multiplied(step_.nodes[node].results.front())) {
        split(node, 0, static_cast<int>(f));
      }
    }
  }

  // Whether some node sums over what it reads of it and of something else.
  bool is_multiplied(ValueId value) const {
    const std::vector<NodeId>& users = rules_.users(value);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& node = step_.nodes[index(user)];
      if (is_view(node)) {
        return is_multiplied(node.results.front());
      }
      const Rule& rule = rules_.rule(index(user));
      for (size_t f = 0; f < rule.factors.size(); ++f) {
        const auto factor = static_cast<int>(f);
        if (operands(node).size() == 2 && is_summed(rule, factor, 0) &&
            has_factor(rule, {false, 0}, factor) &&
            has_factor(rule, {false, 1}, factor)) {
          return true;
        }
      }
      return false;
    });
  }

  // Matrices and tables of experts by which rows are sorted.
  void split_sorted() {
    RuleMemo memo;
    for (const SortedRows& sorted : sorted_rows(step_, memo)) {
      for (const RowNode& row : sorted.nodes) {
        const bool is_product = row.use == RowUse::Product;
        if (!is_product && row.use != RowUse::TakeGroup) {
          continue;
        }
        const ValueId value =
            is_product ? operands(step_.nodes[row.node])[1] : row.from;
        if (!sorted.rows.contains(value)) {
          split(value, whole_dim(step_[value].type, 0));
        }
      }
    }
  }

  const StepRules& rules_;
  const Function& step_;
  const int64_t ways_;
  Spots parameters_;
};

}  // namespace

Spots expert_split(const StepRules& rules, int64_t ways) {
  return ExpertSplitter(rules, ways).run();
}

int64_t expert_count(const StepRules& rules) {
  int64_t count = 0;
  for (const auto& spot : expert_split(rules, 1)) {
    count = spot ? std::gcd(count, spot->size) : count;
  }
  return std::max<int64_t>(count, 1);
}

}  // namespace weft
