// SPDX-License-Identifier: Apache-2.0
#include "expansion.h"

#include "aten/call.h"
#include "aten/types.h"
#include "base/error.h"
#include "ops/node_builder.h"
#include "pieces.h"

#include <utility>

namespace weft {
namespace {

ValueTensors operands_of(const Node& node, const ValueTensors& values) {
  ValueTensors tensors;
  for (const ValueId id : operands(node)) {
    tensors.push_back(values[index(id)]);
  }
  return tensors;
}

void check_types(
    const Function& function, const Node& node, const ValueTensors& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) {
      continue;
    }
    const std::string said = print(function[node.results[i]].type);
    const std::string made = print(type_of(results[i]));
    WEFT_CHECK_USER(
        said == made, node.op, " makes ", made, ", the table says ", said);
  }
}

// Which part of a dim is cut: the dim is (outer size inner), and `size` is cut.
struct CutDim {
  size_t dim = 0;
  int64_t size = 1;
  int64_t inner = 1;
};

std::optional<CutDim> find_cut(
    const Rule& rule, const std::vector<DimFactors>& dims, int factor) {
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t inner = 1;
    for (size_t i = dims[d].size(); i-- > 0;) {
      const int64_t size = rule.factors[static_cast<size_t>(dims[d][i])].size;
      if (dims[d][i] == factor) {
        return CutDim{d, size, inner};
      }
      inner *= size;
    }
  }
  return std::nullopt;
}

class SplitRun {
 public:
  SplitRun(const Expansion& expansion, int64_t ways, ValueTensors values)
      : function_(expansion.function),
        ways_(ways),
        values_(std::move(values)),
        cuts_(values_.size()) {}

  void cut(ValueId value, std::optional<CutDim> where) {
    cuts_[index(value)] = where;
  }

  ValueTensors run() {
    for (const Node& node : function_.nodes) {
      run_node(node);
    }
    return std::move(values_);
  }

 private:
  // Where in the node's rule the cut of an operand falls. Contiguous pieces of
  // several factors are pieces of the slowest.
  struct Place {
    int factor = -1;
    // Inside the factor: its pieces are not contiguous. Then this is the cut of
    // a tensor in which nothing is inside the factor.
    std::optional<CutDim> inside = std::nullopt;
  };

  Place place_of(
      const Node& node, const Rule& rule, size_t operand, const CutDim& cut) {
    int64_t inner = 1;
    const DimFactors& dim = rule.operands[operand][cut.dim];
    for (size_t i = dim.size(); i-- > 0;) {
      const Factor& factor = rule.factors[static_cast<size_t>(dim[i])];
      const bool is_free = factor.kind == FactorKind::Free;
      if (inner * factor.size == cut.inner * cut.size &&
          factor.size % ways_ == 0) {
        WEFT_CHECK_USER(is_free, node.op, " must have it whole: ", print(rule));
        return {dim[i]};
      }
      if (is_free && cut.inner % inner == 0 &&
          inner * factor.size % (cut.inner * cut.size) == 0) {
        return {dim[i], CutDim{0, cut.size, cut.inner / inner}};
      }
      inner *= factor.size;
    }
    throw UserError(cat(node.op, " cannot be cut there: ", print(rule)));
  }

  Place find_place(const Node& node, const Rule& rule) {
    Place found;
    const std::vector<ValueId> read = operands(node);
    for (size_t i = 0; i < read.size(); ++i) {
      if (const std::optional<CutDim>& cut = cuts_[index(read[i])]) {
        const Place place = place_of(node, rule, i, *cut);
        WEFT_CHECK_USER(
            found.factor < 0 || found.factor == place.factor,
            node.op,
            " has two factors cut");
        found = place;
      }
    }
    return found;
  }

  void run_node(const Node& node) {
    const Rule rule = rule_of(function_, node);
    const Place place = find_place(node, rule);
    if (place.factor < 0 || place.inside) {
      run_node_whole(node, rule, place);
      return;
    }
    const int factor = place.factor;
    std::vector<ValueTensors> parts;
    std::vector<Pieces> pieces;
    for (int64_t part = 0; part < ways_; ++part) {
      pieces.push_back(split_pieces(rule, factor, ways_, part));
      parts.push_back(run_piece(node, rule, pieces.back()));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      ValueTensors of_result;
      for (const ValueTensors& part : parts) {
        of_result.push_back(part[i]);
      }
      if (!of_result.front().defined()) {
        continue;
      }
      values_[index(result)] = join_parts(
          of_result,
          rule,
          static_cast<int>(i),
          factor,
          pieces,
          function_[result].type.sizes);
      cuts_[index(result)] = find_cut(rule, rule.results[i], factor);
    }
  }

  // Which elements of a free factor a piece has does not matter to it.
  void run_node_whole(const Node& node, const Rule& rule, const Place& place) {
    const ValueTensors results = AtenCall(node)(operands_of(node, values_));
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId id = node.results[i];
      values_[index(id)] = results[i];
      const auto whole = find_cut(rule, rule.results[i], place.factor);
      if (place.inside && whole) {
        cuts_[index(id)] = CutDim{
            whole->dim, place.inside->size, place.inside->inner * whole->inner};
      }
    }
  }

  ValueTensors run_piece(
      const Node& node, const Rule& rule, const Pieces& pieces) {
    const LocalCall call =
        local_call(*find_op(node.op), function_, node, rule, pieces);
    const std::vector<ValueId> read = operands(node);
    ValueTensors values(call.function.values.size());
    for (size_t i = 0; i < call.kept.size(); ++i) {
      const size_t operand = call.kept[i];
      values[i] = weft::cut(
          values_[index(read[operand])],
          rule,
          {false, static_cast<int>(operand)},
          pieces);
    }
    run_nodes(call.function, values);
    ValueTensors results;
    for (const ValueId id : call.results) {
      results.push_back(values[index(id)]);
    }
    return results;
  }

  const Function& function_;
  int64_t ways_;
  ValueTensors values_;
  std::vector<std::optional<CutDim>> cuts_;
};

ValueTensors with_operands(
    const Expansion& expansion,
    const Node& node,
    const ValueTensors& operand_tensors) {
  ValueTensors values(expansion.function.values.size());
  const std::vector<ValueId> ids = operands(node);
  for (size_t i = 0; i < ids.size(); ++i) {
    values[index(ids[i])] = operand_tensors[i];
  }
  return values;
}

ValueTensors results_of(
    const Expansion& expansion, const ValueTensors& values) {
  ValueTensors results;
  for (const ValueId id : expansion.results) {
    results.push_back(id == ValueId::None ? at::Tensor() : values[index(id)]);
  }
  return results;
}

}  // namespace

void run_nodes(const Function& function, ValueTensors& values) {
  for (const Node& node : function.nodes) {
    const ValueTensors results = AtenCall(node)(operands_of(node, values));
    for (size_t i = 0; i < results.size(); ++i) {
      values[index(node.results[i])] = results[i];
    }
  }
}

std::optional<Expansion> expand_node(
    const OpDef& def, const Function& function, const Node& node) {
  if (def.expand == nullptr) {
    return std::nullopt;
  }
  Expansion expansion = {.function = function, .results = {}};
  expansion.function.nodes.clear();
  NodeBuilder builder(expansion.function);
  builder.begin(node);
  expansion.results = def.expand(builder, node);
  if (expansion.results.empty()) {
    WEFT_CHECK_USER(expansion.function.nodes.empty(), "nodes of no expansion");
    return std::nullopt;
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId id = expansion.results.at(i);
    if (id == ValueId::None) {
      continue;
    }
    const std::string ours = print(expansion.function[id].type);
    const std::string type = print(function[node.results[i]].type);
    WEFT_CHECK_USER(
        ours == type, "expanded result ", i, " is ", ours, ", not ", type);
  }
  return expansion;
}

ValueTensors run_expanded(
    const Expansion& expansion,
    const Node& node,
    const ValueTensors& operands) {
  ValueTensors values = with_operands(expansion, node, operands);
  run_nodes(expansion.function, values);
  for (const Node& each : expansion.function.nodes) {
    ValueTensors results;
    for (const ValueId id : each.results) {
      results.push_back(values[index(id)]);
    }
    check_types(expansion.function, each, results);
  }
  return results_of(expansion, values);
}

ValueTensors run_expanded_split(
    const Expansion& expansion,
    const Node& node,
    const Rule& rule,
    FactorCut cut,
    const ValueTensors& operands) {
  SplitRun run(expansion, cut.ways, with_operands(expansion, node, operands));
  const std::vector<ValueId> ids = weft::operands(node);
  for (size_t i = 0; i < ids.size(); ++i) {
    run.cut(ids[i], find_cut(rule, rule.operands[i], cut.factor));
  }
  return results_of(expansion, run.run());
}

}  // namespace weft
