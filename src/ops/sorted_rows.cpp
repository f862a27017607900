// SPDX-License-Identifier: Apache-2.0
#include "ops/sorted_rows.h"

#include "ops/call.h"
#include "ops/op_def.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace weft {
namespace {

// What is known of a value that follows from the sorted choices.
struct RowTag {
  enum class Kind : uint8_t {
    Ids,      // the choices, sorted or not
    Sorted,   // the choices, sorted
    Order,    // which choice stands where, divided by `share`
    Inverse,  // where each choice stands
    Counts,   // how many choices each expert has
    Ends,     // where each expert's end
    Rows,     // sorted along `dim`
  };
  Kind kind = Kind::Rows;
  int64_t share = 1;
  int dim = 0;
};
using RowKind = RowTag::Kind;

bool is_one_of(
    const Node& node, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), node.op) != names.end();
}

// Of one dim, ascending.
bool sorts_numbers(const Function& step, const Node& node) {
  if (!is_one_of(node, {"aten.sort", "aten.sort.stable"})) {
    return false;
  }
  const TensorType& type = type_arg(step, node, 0);
  const bool is_stable = node.op == "aten.sort.stable";
  return type.sizes.size() == 1 && type.dtype == DType::I64 &&
         !(is_stable ? bool_option(node, "descending", false)
                     : bool_arg(node, 2, false));
}

// The same elements, maybe of another type.
bool is_copied(const Node& node) {
  return is_one_of(
      node, {"aten.alias", "aten.detach", "aten.clone", "aten._to_copy"});
}

class SortedRegion {
 public:
  SortedRegion(
      const Function& step,
      RuleMemo& rules,
      const std::vector<std::vector<NodeId>>& users,
      size_t sort)
      : step_(step), rules_(rules), users_(users) {
    const Node& node = step.nodes[sort];
    out_.sort = sort;
    out_.ids = value_arg(node, 0);
    out_.choices = step_[out_.ids].type.sizes.front();
    tag(out_.ids, {RowKind::Ids});
    tag(node.results[0], {RowKind::Sorted});
    tag(node.results[1], {RowKind::Order});
  }

  std::optional<SortedRows> run() {
    while (!next_.empty()) {
      const size_t node = *next_.begin();
      next_.erase(next_.begin());
      if (!visit(node)) {
        return std::nullopt;
      }
    }
    const bool has_product = std::any_of(
        out_.nodes.begin(), out_.nodes.end(), [](const RowNode& each) {
          return each.use == RowUse::Product;
        });
    if (!has_product) {
      return std::nullopt;
    }
    for (const Output& output : step_.outputs) {
      if (find(output.value, RowKind::Rows) != nullptr) {
        return std::nullopt;
      }
    }
    return std::move(out_);
  }

 private:
  void tag(ValueId value, const RowTag& what) {
    tags_.emplace(value, what);
    if (what.kind == RowKind::Rows) {
      out_.rows.emplace(value, what.dim);
    }
    for (const NodeId user : users_[index(value)]) {
      next_.insert(index(user));
    }
  }

  const RowTag* find(ValueId value, RowKind kind) const {
    const auto at = tags_.find(value);
    return at != tags_.end() && at->second.kind == kind ? &at->second : nullptr;
  }

  bool reads_rows(const Node& node) const {
    const std::vector<ValueId> read = operands(node);
    return std::any_of(read.begin(), read.end(), [this](ValueId value) {
      return find(value, RowKind::Rows) != nullptr;
    });
  }

  // The number of experts is one for all.
  bool agrees(int64_t experts) {
    if (out_.experts == 0) {
      out_.experts = experts;
    }
    return out_.experts == experts;
  }

  // False where a use of sorted rows is not understood.
  bool visit(size_t number) {
    const Node& node = step_.nodes[number];
    if (number == out_.sort || note_order(node)) {
      return true;
    }
    if (is_one_of(node, {"aten.index.Tensor", "aten._unsafe_index.Tensor"})) {
      return read_rows(number, index_of(node)) || !reads_rows(node);
    }
    if (is_one_of(
            node,
            {"aten.index_put", "aten._unsafe_index_put", "aten.index_add"})) {
      return write_rows(number) || !reads_rows(node);
    }
    if (node.op == "aten.index_select" && int_arg(node, 1, 0) == 0) {
      return read_rows(number, value_arg(node, 2)) || !reads_rows(node);
    }
    if (!reads_rows(node)) {
      return true;
    }
    return node.op == "aten._grouped_mm" ? multiply(number) : pass(number);
  }

  // The one index tensor, of dim 0.
  static ValueId index_of(const Node& node) {
    const auto* list = std::get_if<Arg::List>(&node.args.at(1).data);
    if (list == nullptr || list->size() != 1 ||
        !std::holds_alternative<ValueId>(list->front().data)) {
      return ValueId::None;
    }
    return std::get<ValueId>(list->front().data);
  }

  // What tells the order; its nodes stay as they are.
  bool note_order(const Node& node) {
    const auto* read =
        node.args.empty() ? nullptr : std::get_if<ValueId>(&node.args[0].data);
    const auto at = read == nullptr ? tags_.end() : tags_.find(*read);
    if (at == tags_.end() || at->second.kind == RowKind::Rows) {
      return note_inverse(node);
    }
    const RowTag from = at->second;
    const ValueId made = node.results.front();
    if (is_copied(node)) {
      tag(made, from);
      return true;
    }
    const bool is_floor =
        is_one_of(node, {"aten.floor_divide", "aten.floor_divide.Scalar"}) ||
        (is_one_of(node, {"aten.div.Tensor_mode", "aten.div.Scalar_mode"}) &&
         find_option(node, "rounding_mode") != nullptr &&
         find_option(node, "rounding_mode")->data ==
             Arg{std::string("floor")}.data);
    if (from.kind == RowKind::Order && is_floor &&
        std::holds_alternative<int64_t>(node.args.at(1).data)) {
      tag(made, {RowKind::Order, from.share * int_arg(node, 1, 1)});
      return true;
    }
    if (from.kind == RowKind::Order && from.share == 1 &&
        sorts_numbers(step_, node)) {
      tag(node.results[1], {RowKind::Inverse});
      return true;
    }
    const bool is_ids =
        from.kind == RowKind::Ids || from.kind == RowKind::Sorted;
    const int64_t bins = int_bins(node);
    if (is_ids && bins > 0) {
      return agrees(bins) && (tag(made, {RowKind::Counts}), true);
    }
    if (from.kind == RowKind::Counts && node.op == "aten.cumsum") {
      tag(made, {RowKind::Ends});
      return true;
    }
    return false;
  }

  // Experts that are counted, each in a bin of its own; 0: none are.
  static int64_t int_bins(const Node& node) {
    if (node.op == "aten.bincount" && find_arg(node, 1) == nullptr) {
      return int_arg(node, 2, 0);
    }
    const int64_t bins = node.op == "aten.histc" ? int_arg(node, 1, 100) : 0;
    return bins > 0 && number_arg(node, 2, 0) == 0 &&
                   number_arg(node, 3, 0) == static_cast<double>(bins - 1)
               ? bins
               : 0;
  }

  // index_put(any, [order], arange)
  bool note_inverse(const Node& node) {
    if (!is_one_of(node, {"aten.index_put", "aten._unsafe_index_put"}) ||
        bool_arg(node, 3, false)) {
      return false;
    }
    const RowTag* order = find(index_of(node), RowKind::Order);
    const ValueId values = value_arg(node, 2);
    const NodeId maker = step_[values].node;
    if (order == nullptr || order->share != 1 || maker == NodeId::None ||
        step_[node.results.front()].type.sizes != Dims{out_.choices}) {
      return false;
    }
    const Node& range = step_.nodes[index(maker)];
    const bool counts_up =
        (range.op == "aten.arange" &&
         range.args.front() == Arg{out_.choices}) ||
        (is_one_of(range, {"aten.arange.start", "aten.arange.start_step"}) &&
         range.args.front() == Arg{int64_t{0}} &&
         int_arg(range, 1, 0) == out_.choices && int_arg(range, 2, 1) == 1);
    if (counts_up) {
      tag(node.results.front(), {RowKind::Inverse});
    }
    return counts_up;
  }

  void take(size_t number, RowNode row) {
    row.node = number;
    out_.nodes.push_back(row);
    tag(step_.nodes[number].results.front(), {RowKind::Rows});
  }

  bool read_rows(size_t number, ValueId by) {
    const Node& node = step_.nodes[number];
    const ValueId from = value_arg(node, 0);
    const int64_t size = step_[from].type.sizes.front();
    const RowTag* rows = find(from, RowKind::Rows);
    if (rows != nullptr) {
      if (find(by, RowKind::Inverse) == nullptr || rows->dim != 0) {
        return false;
      }
      out_.nodes.push_back({.node = number, .use = RowUse::Add, .from = from});
      return true;
    }
    if (tags_.contains(from)) {
      return false;
    }
    if (const RowTag* order = find(by, RowKind::Order)) {
      if (size * order->share != out_.choices) {
        return false;
      }
      take(number, {.use = RowUse::Take, .from = from, .share = order->share});
      return true;
    }
    if (find(by, RowKind::Sorted) != nullptr &&
        step_[from].type.sizes.size() == 2 && agrees(size)) {
      take(number, {.use = RowUse::TakeGroup, .from = from});
      return true;
    }
    return false;
  }

  bool is_zero(ValueId value) const {
    const NodeId maker = step_[value].node;
    return maker != NodeId::None &&
           is_one_of(
               step_.nodes[index(maker)],
               {"aten.zeros", "aten.new_zeros", "aten.zeros_like"});
  }

  bool write_rows(size_t number) {
    const Node& node = step_.nodes[number];
    const bool is_add = node.op == "aten.index_add";
    if (is_add &&
        (int_arg(node, 1, 0) != 0 || number_option(node, "alpha", 1) != 1)) {
      return false;
    }
    const ValueId base = value_arg(node, 0);
    const ValueId by = is_add ? value_arg(node, 2) : index_of(node);
    const ValueId values = value_arg(node, is_add ? 3 : 2);
    const bool adds = is_add || bool_arg(node, 3, false);
    const int64_t size = step_[base].type.sizes.front();
    const RowTag* rows = find(values, RowKind::Rows);
    if (by == ValueId::None || find(base, RowKind::Rows) != nullptr) {
      return false;
    }
    if (rows == nullptr) {
      if (find(by, RowKind::Inverse) == nullptr || !is_zero(base) ||
          step_[values].type.sizes != step_[base].type.sizes) {
        return false;
      }
      take(number, {.use = RowUse::Take, .from = values});
      return true;
    }
    const Dims& sizes = step_[values].type.sizes;
    const Dims& whole = step_[base].type.sizes;
    if (rows->dim != 0 || sizes.size() != whole.size() ||
        !std::equal(sizes.begin() + 1, sizes.end(), whole.begin() + 1)) {
      return false;
    }
    const ValueId added = is_zero(base) ? ValueId::None : base;
    if (const RowTag* order = find(by, RowKind::Order)) {
      if (size * order->share != out_.choices ||
          (!adds && (order->share != 1 || added != ValueId::None))) {
        return false;
      }
      out_.nodes.push_back(
          {.node = number,
           .use = RowUse::Add,
           .from = values,
           .share = order->share,
           .base = added});
      return true;
    }
    if (find(by, RowKind::Sorted) != nullptr && adds && sizes.size() == 2 &&
        agrees(size) && added == ValueId::None) {
      out_.nodes.push_back(
          {.node = number, .use = RowUse::AddGroup, .from = values});
      return true;
    }
    return false;
  }

  bool multiply(size_t number) {
    const Node& node = step_.nodes[number];
    const ValueId a = value_arg(node, 0);
    const ValueId b = value_arg(node, 1);
    const ValueId ends = value_arg(node, 2);
    if (node.args.size() > 3 || ends == ValueId::None ||
        find(ends, RowKind::Ends) == nullptr ||
        !agrees(step_[ends].type.sizes.front())) {
      return false;
    }
    const RowTag* of_a = find(a, RowKind::Rows);
    const RowTag* of_b = find(b, RowKind::Rows);
    const bool by_matrices = of_a != nullptr && of_a->dim == 0 &&
                             of_b == nullptr && !tags_.contains(b) &&
                             step_[b].type.sizes.size() == 3;
    const bool makes_matrices =
        of_a != nullptr && of_a->dim == 1 && of_b != nullptr && of_b->dim == 0;
    if (!by_matrices && !makes_matrices) {
      return false;
    }
    out_.nodes.push_back({.node = number, .use = RowUse::Product});
    if (by_matrices) {
      tag(node.results.front(), {RowKind::Rows});
    }
    return true;
  }

  // Each row by itself: rows are a factor of their own in all that has them.
  bool pass(size_t number) {
    const Node& node = step_.nodes[number];
    const Rule& rule = rules_.rule(step_, node);
    const std::vector<ValueId> read = operands(node);
    if (is_random(node) || find_op(node.op) == nullptr) {
      return false;
    }
    int factor = -1;
    for (size_t i = 0; i < read.size(); ++i) {
      const RowTag* rows = find(read[i], RowKind::Rows);
      if (rows == nullptr) {
        continue;
      }
      const DimFactors& dim = rule.operands[i][static_cast<size_t>(rows->dim)];
      if (dim.empty()) {
        // Nothing is read but the type, or there is one row.
        continue;
      }
      if (dim.size() != 1 || (factor >= 0 && factor != dim.front())) {
        return false;
      }
      factor = dim.front();
    }
    if (factor < 0) {
      return out_.choices > 1;
    }
    if (rule.factors[static_cast<size_t>(factor)].kind != FactorKind::Free ||
        rule.factors[static_cast<size_t>(factor)].size != out_.choices) {
      return false;
    }
    return pass_factor(number, rule, factor);
  }

  static int dim_of(const std::vector<DimFactors>& dims, int factor) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(dims[d].begin(), dims[d].end(), factor) != dims[d].end()) {
        return dims[d].size() == 1 ? static_cast<int>(d) : -1;
      }
    }
    return -1;
  }

  bool pass_factor(size_t number, const Rule& rule, int factor) {
    const Node& node = step_.nodes[number];
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      // Rows of something else that happen to be as many.
      if (find(read[i], RowKind::Rows) == nullptr &&
          dim_of(rule.operands[i], factor) >= 0) {
        return false;
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const int dim = dim_of(rule.results[i], factor);
      if (dim < 0) {
        return false;
      }
      tag(node.results[i], {RowKind::Rows, 1, dim});
    }
    out_.nodes.push_back(
        {.node = number, .use = RowUse::Plain, .factor = factor});
    return true;
  }

  const Function& step_;
  RuleMemo& rules_;
  const std::vector<std::vector<NodeId>>& users_;
  std::map<ValueId, RowTag> tags_;
  // Nodes that read something of a known order.
  std::set<size_t> next_;
  SortedRows out_;
};

}  // namespace

std::vector<SortedRows> sorted_rows(const Function& step, RuleMemo& rules) {
  std::vector<SortedRows> out;
  const bool has_any =
      std::any_of(step.nodes.begin(), step.nodes.end(), [](const Node& node) {
        return node.op == "aten._grouped_mm";
      });
  if (!has_any) {
    return out;
  }
  const std::vector<std::vector<NodeId>> all = users(step);
  for (size_t i = 0; i < step.nodes.size(); ++i) {
    if (sorts_numbers(step, step.nodes[i])) {
      if (std::optional<SortedRows> one =
              SortedRegion(step, rules, all, i).run()) {
        out.push_back(std::move(*one));
      }
    }
  }
  return out;
}

}  // namespace weft
