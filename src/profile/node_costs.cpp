// SPDX-License-Identifier: Apache-2.0
#include "profile/node_costs.h"

#include "ops/op_def.h"
#include "ops/rule.h"

#include <algorithm>

namespace weft {
namespace {

// Expanded elements lie in one place; gaps between elements are not touched.
int64_t touched_bytes(const TensorType& type) {
  return std::min(
      storage_bytes(type), element_count(type) * element_bytes(type.dtype));
}

// What is added up once for every value, however many nodes read it.
std::vector<int64_t> bytes_of_values(const Function& function) {
  std::vector<int64_t> bytes;
  bytes.reserve(function.values.size());
  for (const Value& value : function.values) {
    bytes.push_back(touched_bytes(value.type));
  }
  return bytes;
}

// What the op table says about a node, asked once for a signature.
struct OpFacts {
  bool is_known = false;
  bool is_lookup = false;
  // Without the bytes.
  NodeCosts costs;
};

// By factor of the rule, whether a tensor has it.
std::vector<bool> factors_of(
    const Rule& rule, const std::vector<DimFactors>& dims) {
  std::vector<bool> has(rule.factors.size(), false);
  for (const DimFactors& dim : dims) {
    for (const int factor : dim) {
      has[static_cast<size_t>(factor)] = true;
    }
  }
  return has;
}

// Of the last two operands, if a multiply-add for every combination of factors
// is all that the node does.
ProductSize product_of(const Rule& rule, int64_t flops) {
  int64_t multiply_adds = 2;
  for (const Factor& factor : rule.factors) {
    multiply_adds *= factor.size;
  }
  if (multiply_adds != flops || rule.operands.size() < 2 ||
      rule.results.size() != 1) {
    return {};
  }
  const auto left = factors_of(rule, rule.operands[rule.operands.size() - 2]);
  const auto right = factors_of(rule, rule.operands.back());
  const auto result = factors_of(rule, rule.results.front());
  ProductSize size = {1, 1, 1, 1};
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    int64_t& part = !result[i]            ? size.depth
                    : left[i] && right[i] ? size.count
                    : left[i]             ? size.rows
                                          : size.columns;
    part *= rule.factors[i].size;
  }
  return size;
}

// A product has many flops for each element that it touches.
constexpr int64_t kProductFlops = 16;

int64_t most_elements(const Function& function, const Node& node) {
  int64_t most = 1;
  for_each_operand(node, [&](ValueId value) {
    most = std::max(most, element_count(function[value].type));
  });
  for (const ValueId result : node.results) {
    most = std::max(most, element_count(function[result].type));
  }
  return most;
}

// Of attention: samples and heads. Its first result has them before elements
// that see each other, and what is in each.
int64_t parts_of(const Rule& rule, const Blocks& blocks) {
  int64_t parts = 1;
  for (const DimFactors& dim : rule.results.front()) {
    for (const int number : dim) {
      const Factor& factor = rule.factors[static_cast<size_t>(number)];
      if (factor.name == blocks.stays || factor.name == blocks.passes) {
        return parts;
      }
      parts *= factor.size;
    }
  }
  return parts;
}

// What the flops are for, and of a product its size.
void add_work(
    const Function& function,
    const Node& node,
    const OpDef* op,
    NodeCosts& costs) {
  const int64_t most = most_elements(function, node);
  if (op == nullptr || costs.flops < kProductFlops * most) {
    const Special special = special_of(node);
    if (special != Special::None) {
      costs.functions = most;
      costs.work =
          special == Special::Exponential ? Work::Exponential : Work::Tangent;
    }
    return;
  }
  const bool is_backward = op->linear == Linear::First;
  const Rule rule = rule_of(function, node);
  if (op->blocks) {
    costs.work = is_backward ? Work::AttentionBackward : Work::Attention;
    costs.hidden_flops = hidden_flops_of(function, node);
    costs.parts = parts_of(rule, *op->blocks);
  } else if (!rule.halos.empty()) {
    costs.work = is_backward ? Work::ConvolutionBackward : Work::Convolution;
  } else {
    costs.work = Work::Product;
    if (op->products != nullptr) {
      const Products all = op->products(function, node);
      costs.product = {all.count, all.rows, all.columns, all.depth};
    } else {
      costs.product = product_of(rule, costs.flops);
    }
    costs.parts = costs.product.count;
  }
}

OpFacts ask(const Function& function, const Node& node) {
  const OpDef* op = find_op(node.op);
  OpFacts facts = {
      .is_known = true,
      .is_lookup = op != nullptr && op->lookup_operand >= 0,
      .costs = {
          .flops = flops_of(function, node),
          .is_free =
              is_view(node) || (op != nullptr && op->kind == OpKind::Empty),
          .scratch_bytes = scratch_bytes_of(function, node)}};
  add_work(function, node, op, facts.costs);
  return facts;
}

}  // namespace

std::vector<NodeCosts> node_costs(
    const Function& function, const std::vector<int32_t>& signatures) {
  const std::vector<int64_t> bytes = bytes_of_values(function);
  std::vector<OpFacts> facts(function.nodes.size());
  std::vector<NodeCosts> costs(function.nodes.size());
  // By value, the last node that read it, so that each is read once a node.
  std::vector<NodeId> read_by(function.values.size(), NodeId::None);
  for (size_t i = 0; i < function.nodes.size(); ++i) {
    const Node& node = function.nodes[i];
    OpFacts& fact = facts[static_cast<size_t>(signatures[i])];
    if (!fact.is_known) {
      fact = ask(function, node);
    }
    costs[i] = fact.costs;
    if (costs[i].is_free) {
      continue;
    }
    int64_t results = 0;
    for (const ValueId result : node.results) {
      results += bytes[index(result)];
    }
    costs[i].written_bytes = results;
    const auto here = static_cast<NodeId>(i);
    for_each_operand(node, [&](ValueId value) {
      if (read_by[index(value)] != here) {
        read_by[index(value)] = here;
        const int64_t all = bytes[index(value)];
        costs[i].read_bytes += fact.is_lookup ? std::min(all, results) : all;
      }
    });
  }
  return costs;
}

}  // namespace weft
