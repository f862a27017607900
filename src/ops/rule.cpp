// SPDX-License-Identifier: Apache-2.0
#include "ops/rule.h"

#include "base/error.h"
#include "ops/rule_text.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// A term of the text beside the tensor that it speaks of.
struct Placed {
  const TermText* term = nullptr;
  // nullptr for a result that the node does not have yet.
  const Dims* sizes = nullptr;
};

bool is_number(const Arg& arg) {
  return std::holds_alternative<int64_t>(arg.data) ||
         std::holds_alternative<double>(arg.data) ||
         std::holds_alternative<bool>(arg.data);
}

// The terms of the operands that are there. `none`, or a number in the place of
// a tensor (x + 1), takes a term only while there are more terms than tensors,
// for not every one of them stands for a tensor.
std::vector<Placed> place_operands(
    const std::vector<TermText>& terms,
    const Function& function,
    const Node& node) {
  std::vector<Placed> placed;
  std::vector<ValueId> ids = operands(node);
  size_t absent = terms.size() - std::min(terms.size(), ids.size());
  size_t next = 0;
  auto place = [&](const auto& self, const Arg& arg) -> void {
    if (const auto* id = std::get_if<ValueId>(&arg.data)) {
      WEFT_CHECK(next < terms.size(), "more operands than terms");
      placed.push_back({&terms[next++], &function[*id].type.sizes});
    } else if (const auto* list = std::get_if<Arg::List>(&arg.data)) {
      for (const Arg& item : *list) {
        self(self, item);
      }
    } else if (std::holds_alternative<None>(arg.data) && absent > 0) {
      --absent;
      ++next;
    }
  };
  for (const Arg& arg : node.args) {
    place(place, arg);
    if (is_number(arg) && absent > 0) {
      --absent;
      ++next;
    }
  }
  for (const Option& option : node.options) {
    place(place, option.value);
  }
  return placed;
}

std::vector<Placed> place_results(
    const std::vector<TermText>& terms,
    const Function& function,
    const Node& node) {
  std::vector<Placed> placed;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Dims* sizes = nullptr;
    if (!node.results.empty()) {
      WEFT_CHECK(i < node.results.size(), "fewer results than terms");
      sizes = &function[node.results[i]].type.sizes;
    }
    placed.push_back({&terms[i], sizes});
  }
  WEFT_CHECK(node.results.size() <= terms.size(), "more results than terms");
  return placed;
}

class Sizer {
 public:
  Sizer(std::vector<Placed> operands, std::vector<Placed> results)
      : operands_(std::move(operands)), results_(std::move(results)) {}

  Rule size() {
    for (const auto* side : {&operands_, &results_}) {
      for (const Placed& placed : *side) {
        ellipsis_ = std::max(ellipsis_, ellipsis_count(placed));
      }
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      rule_.operands.push_back(add_term(operands_[i], false, i));
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      rule_.results.push_back(add_term(results_[i], true, i));
    }
    find_sizes();
    for (size_t i = 0; i < operands_.size(); ++i) {
      fit(rule_.operands[i], operands_[i], false, i);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      fit(rule_.results[i], results_[i], true, i);
    }
    return std::move(rule_);
  }

 private:
  // How many dims `...` stands for in this tensor.
  static size_t ellipsis_count(const Placed& placed) {
    size_t named = placed.term->dims.size();
    bool has_ellipsis = std::any_of(
        placed.term->dims.begin(),
        placed.term->dims.end(),
        [](const DimText& dim) { return dim.kind == DimText::Kind::Ellipsis; });
    if (!has_ellipsis || placed.sizes == nullptr) {
      return 0;
    }
    WEFT_CHECK(placed.sizes->size() + 1 >= named, "too few dims");
    return placed.sizes->size() + 1 - named;
  }

  static bool is_undefined(const Placed& placed, size_t tensors) {
    return tensors > 1 && placed.sizes != nullptr && *placed.sizes == Dims{0};
  }

  std::vector<DimFactors> add_term(
      const Placed& placed, bool in_result, size_t tensor) {
    bool apart = placed.term->apart ||
                 (in_result && is_undefined(placed, results_.size()));
    if (apart) {
      if (in_result) {
        rule_.apart.push_back(static_cast<int>(tensor));
      }
      return std::vector<DimFactors>(
          placed.sizes == nullptr ? 0 : placed.sizes->size());
    }
    std::vector<DimFactors> dims;
    for (const DimText& dim : placed.term->dims) {
      if (dim.kind == DimText::Kind::Ellipsis) {
        size_t count =
            placed.sizes == nullptr ? ellipsis_ : ellipsis_count(placed);
        // All dims of the broadcast shape are factors from the first `...` on.
        for (size_t i = 0; i < ellipsis_; ++i) {
          int factor = add_factor(FactorText{cat("dim", i)});
          if (i + count >= ellipsis_) {
            dims.push_back({factor});
          }
        }
        continue;
      }
      DimFactors factors;
      for (const FactorText& text : dim.factors) {
        int factor = add_factor(text);
        factors.push_back(factor);
        if (text.kind == FactorKind::Halo) {
          rule_.halos.push_back(
              {factor,
               in_result,
               static_cast<int>(tensor),
               static_cast<int>(dims.size())});
        }
      }
      dims.push_back(std::move(factors));
    }
    if (placed.sizes != nullptr) {
      WEFT_CHECK(
          dims.size() == placed.sizes->size(),
          in_result ? "result " : "operand ",
          tensor,
          " has ",
          placed.sizes->size(),
          " dims, its term ",
          dims.size());
    }
    return dims;
  }

  int add_factor(const FactorText& text) {
    int found = find_factor(rule_, text.name);
    if (found < 0) {
      found = static_cast<int>(rule_.factors.size());
      rule_.factors.push_back({.name = text.name, .size = kUnknown});
    }
    Factor& factor = rule_.factors[static_cast<size_t>(found)];
    if (text.kind != FactorKind::Free) {
      WEFT_CHECK(
          factor.kind == FactorKind::Free || factor.kind == text.kind,
          "factor ",
          text.name,
          " has two marks");
      factor.kind = text.kind;
    }
    factor.combine = text.combine.value_or(factor.combine);
    factor.size = text.size.value_or(factor.size);
    return found;
  }

  bool is_halo(bool in_result, size_t tensor, size_t dim) const {
    return std::any_of(
        rule_.halos.begin(), rule_.halos.end(), [&](const HaloDim& halo) {
          return halo.in_result == in_result &&
                 halo.tensor == static_cast<int>(tensor) &&
                 halo.dim == static_cast<int>(dim);
        });
  }

  // Dims with one unknown factor tell its size; a size of 1 may be a broadcast,
  // so any other size wins over it.
  void find_sizes() {
    for (size_t pass = 0; pass < 1 + rule_.factors.size(); ++pass) {
      learn(operands_, rule_.operands, false);
      learn(results_, rule_.results, true);
    }
    for (const Factor& factor : rule_.factors) {
      WEFT_CHECK(factor.size != kUnknown, "no size for factor ", factor.name);
    }
  }

  void learn(
      const std::vector<Placed>& side,
      const std::vector<std::vector<DimFactors>>& tensors,
      bool in_result) {
    for (size_t i = 0; i < side.size(); ++i) {
      for (size_t d = 0; side[i].sizes != nullptr && d < tensors[i].size();
           ++d) {
        if (!is_halo(in_result, i, d)) {
          learn_dim(tensors[i][d], (*side[i].sizes)[d]);
        }
      }
    }
  }

  void learn_dim(const DimFactors& dim, int64_t size) {
    Factor* unknown = nullptr;
    int64_t known = 1;
    for (int index : dim) {
      Factor& factor = rule_.factors[static_cast<size_t>(index)];
      if (factor.size == kUnknown || (dim.size() == 1 && factor.size == 1)) {
        if (unknown != nullptr) {
          return;
        }
        unknown = &factor;
      } else {
        known *= factor.size;
      }
    }
    if (unknown != nullptr && known != 0) {
      unknown->size = size / known;
    }
  }

  // Checks the sizes, and takes broadcast dims out.
  void fit(
      std::vector<DimFactors>& dims,
      const Placed& placed,
      bool in_result,
      size_t tensor) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (placed.sizes == nullptr || placed.term->apart ||
          is_halo(in_result, tensor, d) ||
          (in_result && is_undefined(placed, results_.size()))) {
        continue;
      }
      int64_t product = 1;
      for (int index : dims[d]) {
        product *= rule_.factors[static_cast<size_t>(index)].size;
      }
      int64_t size = (*placed.sizes)[d];
      if (size == 1 && product != 1) {
        dims[d].clear();
        continue;
      }
      WEFT_CHECK(
          size == product,
          in_result ? "result " : "operand ",
          tensor,
          ", dim ",
          d,
          " has size ",
          size,
          ", its factors ",
          product);
    }
  }

  static constexpr int64_t kUnknown = -1;

  std::vector<Placed> operands_;
  std::vector<Placed> results_;
  size_t ellipsis_ = 0;
  Rule rule_;
};

bool holds(const std::vector<DimFactors>& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const DimFactors& dim) {
    return std::find(dim.begin(), dim.end(), factor) != dim.end();
  });
}

}  // namespace

Rule rule_from_text(
    std::string_view text, const Function& function, const Node& node) {
  RuleText parsed = parse_rule_text(text);
  try {
    return Sizer(
               place_operands(parsed.operands, function, node),
               place_results(parsed.results, function, node))
        .size();
  } catch (const InternalError& error) {
    throw InternalError(
        cat(error.what(), " (rule \"", text, "\" of ", node.op, ")"));
  }
}

Rule whole_rule(const Function& function, const Node& node) {
  Rule rule;
  for (ValueId id : operands(node)) {
    rule.operands.emplace_back(function[id].type.sizes.size());
  }
  for (ValueId id : node.results) {
    rule.apart.push_back(static_cast<int>(rule.results.size()));
    rule.results.emplace_back(function[id].type.sizes.size());
  }
  return rule;
}

bool is_summed(const Rule& rule, int factor, int result) {
  if (rule.factors[static_cast<size_t>(factor)].kind == FactorKind::Whole ||
      std::find(rule.apart.begin(), rule.apart.end(), result) !=
          rule.apart.end() ||
      holds(rule.results[static_cast<size_t>(result)], factor)) {
    return false;
  }
  return std::any_of(
      rule.operands.begin(),
      rule.operands.end(),
      [&](const std::vector<DimFactors>& dims) { return holds(dims, factor); });
}

Dims result_sizes(const Rule& rule, int result) {
  Dims sizes;
  for (const DimFactors& dim : rule.results[static_cast<size_t>(result)]) {
    int64_t size = 1;
    for (int factor : dim) {
      size *= rule.factors[static_cast<size_t>(factor)].size;
    }
    sizes.push_back(size);
  }
  return sizes;
}

int find_factor(const Rule& rule, std::string_view name) {
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    if (rule.factors[i].name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::string print(const Rule& rule) {
  std::vector<bool> seen(rule.factors.size(), false);
  auto print_factor = [&](int index, bool halo) {
    const Factor& factor = rule.factors[static_cast<size_t>(index)];
    std::string text = factor.name;
    if (!seen[static_cast<size_t>(index)]) {
      seen[static_cast<size_t>(index)] = true;
      text += cat("=", factor.size);
      text += factor.kind == FactorKind::Whole    ? "!"
              : factor.kind == FactorKind::Lookup ? "?"
                                                  : "";
      if (factor.combine != Combine::Sum) {
        text += cat(":", name(factor.combine));
      }
    }
    return halo ? text + "~" : text;
  };
  auto print_tensor = [&](const std::vector<DimFactors>& dims,
                          bool in_result,
                          size_t tensor) -> std::string {
    auto at = static_cast<int>(tensor);
    if (in_result && std::find(rule.apart.begin(), rule.apart.end(), at) !=
                         rule.apart.end()) {
      return "_";
    }
    if (dims.empty()) {
      return "()";
    }
    std::vector<std::string> texts;
    for (size_t d = 0; d < dims.size(); ++d) {
      std::vector<std::string> factors;
      for (int index : dims[d]) {
        HaloDim halo{index, in_result, at, static_cast<int>(d)};
        bool reaches = std::find(rule.halos.begin(), rule.halos.end(), halo) !=
                       rule.halos.end();
        factors.push_back(print_factor(index, reaches));
      }
      texts.push_back(
          factors.empty()       ? "1"
          : factors.size() == 1 ? factors[0]
                                : "(" + join(factors, " ") + ")");
    }
    return join(texts, " ");
  };
  std::vector<std::string> left;
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    left.push_back(print_tensor(rule.operands[i], false, i));
  }
  std::vector<std::string> right;
  for (size_t i = 0; i < rule.results.size(); ++i) {
    right.push_back(print_tensor(rule.results[i], true, i));
  }
  std::string text = join(left, ", ");
  return text + (text.empty() ? "-> " : " -> ") + join(right, ", ");
}

}  // namespace weft
