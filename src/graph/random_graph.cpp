// SPDX-License-Identifier: Apache-2.0
#include "graph/random_graph.h"

#include "base/text.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace weft {

namespace {

class Maker {
 public:
  explicit Maker(const RandomGraphOptions& options)
      : options_(options), random_(options.seed) {}

  Graph graph() {
    Graph graph;
    graph.name = "random";
    graph.modules = {
        {"", "Root"}, {"a.0", "Linear"}, {"strange \"name\"", "X"}};
    graph.constants = {
        {"table",
         make_type(DType::I16, {2, 2}),
         std::string("\0\1\2\3\4\5\6\7", 8)},
        {"empty", make_type(DType::F32, {0}), ""}};
    graph.functions.push_back(function("step"));
    graph.functions.push_back(function("init"));
    return graph;
  }

 private:
  size_t below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }

  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }

  template <typename T, size_t kCount>
  const T& one_of(const T (&items)[kCount]) {
    return items[below(kCount)];
  }

  TensorType type() {
    constexpr DType kDTypes[] = {
        DType::F32, DType::BF16, DType::I64, DType::Bool, DType::F8E4M3};
    Dims sizes(below(4));
    for (int64_t& size : sizes) {
      size = static_cast<int64_t>(below(9));
    }
    Dims strides = row_major_strides(sizes);
    if (chance(0.3)) {
      std::reverse(strides.begin(), strides.end());
    }
    return make_type(one_of(kDTypes), std::move(sizes), std::move(strides));
  }

  std::string name() {
    constexpr std::string_view kPaths[] = {
        "", "a.0", "blocks.3.attn", "x:y-z", "p/q"};
    constexpr std::string_view kLocals[] = {"mm", "add", "t", "_1", "-", "9"};
    return names_.unique(one_of(kPaths), one_of(kLocals));
  }

  ValueId any_value() {
    return static_cast<ValueId>(below(function_.values.size()));
  }

  Arg arg(int depth) {
    switch (below(depth < 3 ? 10 : 9)) {
      case 0:
        return {None{}};
      case 1:
        return {static_cast<int64_t>(random_()) - (1LL << 31)};
      case 2:
        return {number()};
      case 3:
        return {chance(0.5)};
      case 4:
        return {DType::BF16};
      case 5:
        return {Symbol{"channels_last"}};
      case 6:
        return {std::string("a \"b\"\n//c")};
      case 9: {
        Arg::List items(below(4));
        for (Arg& item : items) {
          item = arg(depth + 1);
        }
        return {std::move(items)};
      }
      default:
        return {any_value()};
    }
  }

  double number() {
    constexpr double kNumbers[] = {
        0.0,
        1.0,
        -2.5,
        1e-5,
        0.1,
        1e300,
        std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::denorm_min()};
    return one_of(kNumbers);
  }

  void input() {
    constexpr InputKind kKinds[] = {
        InputKind::Batch,
        InputKind::Parameter,
        InputKind::Buffer,
        InputKind::State,
        InputKind::Scalar};
    Input input;
    input.kind = one_of(kKinds);
    const std::string name = this->name();
    input.keys = {name};
    if (input.kind == InputKind::Parameter) {
      input.trained = chance(0.5);
      if (chance(0.3)) {
        input.keys.push_back(name + " tied");
      }
    }
    if (input.kind == InputKind::Buffer && chance(0.3)) {
      input.saved.emplace();
      if (chance(0.5)) {
        input.saved->push_back(name + " saved");
      }
    }
    input.value = add_value(function_, name, type());
    function_.inputs.push_back(std::move(input));
  }

  // Phases in their order, in runs; some are missing.
  Phase phase_at(int at) {
    constexpr Phase kOrder[] = {
        Phase::Forward, Phase::Recompute, Phase::Backward, Phase::Optimizer};
    return kOrder[std::min(3, 4 * at / std::max(options_.nodes, 1))];
  }

  Node fresh_node() {
    constexpr std::string_view kOps[] = {
        "aten.add.Tensor", "aten.mm", "aten.t", "aten.view", "weft.adamw"};
    Node node;
    node.op = one_of(kOps);
    // A view's first argument is what it is a view of.
    node.args.push_back({any_value()});
    for (size_t count = below(3); count > 0; --count) {
      node.args.push_back(arg(0));
    }
    if (chance(0.2)) {
      node.options.push_back({"alpha", arg(0)});
    }
    if (chance(0.1)) {
      node.op = "aten.native_dropout";
      node.options.push_back(
          {std::string(kRngOption), {static_cast<int64_t>(below(3))}});
    }
    return node;
  }

  void node(int at) {
    std::vector<std::string> names = {name()};
    std::vector<TensorType> types = {type()};
    Node node;
    if (at > 0 && chance(options_.repeat)) {
      node = function_.nodes[below(function_.nodes.size())];
      node.releases.clear();
      node.overwrites = ValueId::None;
      names.resize(node.results.size());
      types.clear();
      for (size_t i = 0; i < names.size(); ++i) {
        names[i] = i == 0 ? names[0] : name();
        types.push_back(function_[node.results[i]].type);
      }
    } else {
      node = fresh_node();
      if (chance(0.2)) {
        names.push_back(name());
        types.push_back(type());
      }
    }
    node.phase = phase_at(at);
    add_node(function_, std::move(node), names, types);
  }

  // Some nodes take over the storage of their first operand, and some storages
  // are released: after their last reader, or later.
  void storages() {
    const auto readers = users(function_);
    const size_t count = function_.values.size();
    std::vector<size_t> last_read(count, 0);
    for (size_t i = 0; i < count; ++i) {
      last_read[i] = readers[i].empty() ? 0 : index(readers[i].back());
    }
    for (const Output& output : function_.outputs) {
      last_read[index(output.value)] = function_.nodes.size();
    }
    // By value: the first value in its storage. By that value: the last reader
    // of the storage so far.
    std::vector<size_t> storage(count);
    std::vector<size_t> last = last_read;
    for (size_t i = 0; i < function_.inputs.size(); ++i) {
      storage[i] = i;
    }
    for (size_t at = 0; at < function_.nodes.size(); ++at) {
      Node& node = function_.nodes[at];
      const size_t base = storage[index(operands(node)[0])];
      const bool is_view = node.op == "aten.t" || node.op == "aten.view";
      if (!is_view && last[base] <= at && chance(0.3)) {
        node.overwrites = operands(node)[0];
      }
      for (const ValueId result : node.results) {
        const bool is_in_base = is_view || (node.overwrites != ValueId::None &&
                                            result == node.results[0]);
        storage[index(result)] = is_in_base ? base : index(result);
        size_t& end = last[storage[index(result)]];
        end = std::max({end, at, last_read[index(result)]});
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (storage[i] == i && last[i] < function_.nodes.size() && chance(0.5)) {
        const size_t at = last[i] + below(function_.nodes.size() - last[i]);
        function_.nodes[at].releases.push_back(static_cast<ValueId>(i));
      }
    }
  }

  Function function(std::string name) {
    function_ = {};
    names_ = {};
    function_.name = std::move(name);
    for (size_t count = 1 + below(4); count > 0; --count) {
      input();
    }
    function_.inputs.push_back(
        {add_value(
             function_, names_.unique("", "c"), make_type(DType::I16, {2, 2})),
         InputKind::Constant,
         {"table"},
         false});
    for (int at = 0; at < options_.nodes; ++at) {
      node(at);
    }
    function_.outputs = {
        {OutputKind::Loss, "", any_value()},
        {OutputKind::Gradient, "a b", any_value()},
        {OutputKind::Extra, "0", any_value()}};
    storages();
    return std::move(function_);
  }

  RandomGraphOptions options_;
  std::mt19937 random_;
  Function function_;
  NameTable names_;
};

}  // namespace

Graph random_graph(const RandomGraphOptions& options) {
  return Maker(options).graph();
}

}  // namespace weft
