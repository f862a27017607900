// SPDX-License-Identifier: Apache-2.0
// Proves OpDef::blocks on the examples of every entry that has it: the pieces
// of one factor, by blocks of the other, give what ATen gives for the whole.
#include "aten/call.h"
#include "aten/types.h"
#include "base/text.h"
#include "expansion.h"
#include "ops/arithmetic.h"
#include "ops/example.h"
#include "ops/node_builder.h"
#include "pieces.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <optional>

namespace weft {
namespace {

// Piece `part` of `ways`: neighbours, or every `ways`-th. Neighbours need not
// be equally many.
Stripe piece(int64_t whole, int64_t ways, int64_t part, bool striped) {
  if (striped) {
    return {part, ways, whole / ways};
  }
  const int64_t start = part * whole / ways;
  return {start, 1, (part + 1) * whole / ways - start};
}

at::Tensor part_of(
    at::Tensor tensor,
    const std::vector<DimFactors>& dims,
    int factor,
    const Stripe& stripe) {
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (std::find(dims[dim].begin(), dims[dim].end(), factor) !=
        dims[dim].end()) {
      tensor = tensor.slice(
          static_cast<int64_t>(dim),
          stripe.start,
          stripe.start + (stripe.size - 1) * stripe.step + 1,
          stripe.step);
    }
  }
  return tensor;
}

// An example with its operands drawn, and what ATen makes of them.
struct Drawn {
  const OpDef& def;
  Example example;
  Rule rule;
  ValueTensors operands;
  ValueTensors expected;
  int stays = 0;
  int passes = 0;

  Drawn(const OpDef& op, std::string_view text)
      : def(op),
        example(parse_example(op, text)),
        operands(draw_operands(example)) {}

  void run() {
    expected = AtenCall(example.node)(operands);
    std::vector<std::string> names;
    std::vector<TensorType> types;
    for (size_t i = 0; i < expected.size(); ++i) {
      names.push_back(cat("result", i));
      types.push_back(type_of(expected[i]));
    }
    add_node(example.function, example.node, names, types);
    rule = rule_of(example.function, example.function.nodes.back());
    stays = find_factor(rule, def.blocks->stays);
    passes = find_factor(rule, def.blocks->passes);
  }

  bool has_passes(size_t result) const {
    return std::any_of(
        rule.results[result].begin(),
        rule.results[result].end(),
        [this](const DimFactors& dim) {
          return std::find(dim.begin(), dim.end(), passes) != dim.end();
        });
  }
};

class BlockRun {
 public:
  BlockRun(const Drawn& drawn, int64_t ways, bool striped)
      : drawn_(drawn), blocks_(*drawn.def.blocks) {
    const auto size = [&](int factor) {
      return drawn.rule.factors[static_cast<size_t>(factor)].size;
    };
    for (int64_t part = 0; part < ways; ++part) {
      stays_.push_back(piece(size(drawn.stays), ways, part, striped));
      passes_.push_back(piece(size(drawn.passes), ways, part, striped));
    }
  }

  // Whether every block can be made.
  bool is_possible() const {
    for (const Stripe& stays : stays_) {
      for (const Stripe& passes : passes_) {
        if (!blocks_.sight(drawn_.example.node, stays, passes)) {
          return false;
        }
      }
    }
    return true;
  }

  void prove() {
    const size_t count = drawn_.expected.size();
    std::vector<std::vector<at::Tensor>> sums(
        passes_.size(), std::vector<at::Tensor>(count));
    for (const Stripe& stays : stays_) {
      run_piece(stays, sums);
    }
    for (size_t block = 0; block < passes_.size(); ++block) {
      for (size_t i = 0; i < count; ++i) {
        if (drawn_.has_passes(i)) {
          const at::Tensor expected = part_of(
              drawn_.expected[i],
              drawn_.rule.results[i],
              drawn_.passes,
              passes_[block]);
          const at::Tensor got = sums[block][i].defined()
                                     ? sums[block][i]
                                     : at::zeros_like(expected);
          EXPECT_EQ(difference(got, expected), "") << "sum " << i;
        }
      }
    }
  }

 private:
  // The elements that stay, with all blocks.
  void run_piece(
      const Stripe& stays, std::vector<std::vector<at::Tensor>>& sums) {
    function_ = {};
    values_.clear();
    std::vector<Node> nodes;
    for (const Stripe& passes : passes_) {
      nodes.push_back(local_node(stays, passes));
    }
    NodeBuilder builder(function_);
    builder.begin("blocks", Phase::Forward);
    std::vector<ValueId> joined;
    std::vector<std::vector<ValueId>> all(passes_.size());
    for (size_t block = 0; block < passes_.size(); ++block) {
      const Node& node = nodes[block];
      if (blocks_.sight(node, stays, passes_[block]) == Sight::None) {
        continue;
      }
      all[block] = blocks_.block(builder, node, stays, passes_[block]);
      const std::vector<ValueId>& got = all[block];
      if (joined.empty()) {
        joined = got;
      } else if (blocks_.join) {
        joined = blocks_.join(builder, node, joined, got);
      } else {
        for (size_t i = 0; i < got.size(); ++i) {
          joined[i] =
              drawn_.has_passes(i) ? got[i] : add(builder, joined[i], got[i]);
        }
      }
    }
    ASSERT_FALSE(joined.empty()) << "sees nothing";
    if (blocks_.finish) {
      joined = blocks_.finish(builder, nodes.front(), joined);
    }
    values_.resize(function_.values.size());
    run_nodes(function_, values_);
    for (size_t i = 0; i < joined.size(); ++i) {
      if (!drawn_.has_passes(i)) {
        const at::Tensor expected = part_of(
            drawn_.expected[i], drawn_.rule.results[i], drawn_.stays, stays);
        EXPECT_EQ(difference(values_[index(joined[i])], expected), "")
            << "result " << i;
      }
      for (size_t block = 0; block < all.size(); ++block) {
        if (drawn_.has_passes(i) && !all[block].empty()) {
          at::Tensor& sum = sums[block][i];
          const at::Tensor& more = values_[index(all[block][i])];
          sum = sum.defined() ? sum + more : more;
        }
      }
    }
    check_types();
  }

  // The node with these parts of its operands as inputs.
  Node local_node(const Stripe& stays, const Stripe& passes) {
    Node node = drawn_.example.node;
    const std::vector<ValueId> read = operands(node);
    std::vector<ValueId> now(drawn_.example.function.values.size());
    for (size_t i = 0; i < read.size(); ++i) {
      at::Tensor mine = part_of(
          drawn_.operands[i], drawn_.rule.operands[i], drawn_.stays, stays);
      mine = part_of(mine, drawn_.rule.operands[i], drawn_.passes, passes);
      const auto id = static_cast<ValueId>(function_.values.size());
      function_.values.push_back(
          {.name = cat("operand", function_.values.size()),
           .type = type_of(mine)});
      values_.push_back(mine);
      now[index(read[i])] = id;
    }
    replace_operands(node, now);
    return node;
  }

  void check_types() const {
    for (const Node& node : function_.nodes) {
      for (const ValueId id : node.results) {
        EXPECT_EQ(print(function_[id].type), print(type_of(values_[index(id)])))
            << node.op;
      }
    }
  }

  const Drawn& drawn_;
  const Blocks& blocks_;
  std::vector<Stripe> stays_;
  std::vector<Stripe> passes_;
  Function function_;
  ValueTensors values_;
};

// How many of 2, 3 and 4 blocks, neighbouring or striped, could be made.
int prove(const Drawn& drawn) {
  int proved = 0;
  for (const bool striped : {false, true}) {
    for (const int64_t ways : {2, 3, 4}) {
      const bool divides =
          drawn.rule.factors[static_cast<size_t>(drawn.stays)].size % ways ==
              0 &&
          drawn.rule.factors[static_cast<size_t>(drawn.passes)].size % ways ==
              0;
      BlockRun run(drawn, ways, striped);
      if ((divides || !striped) && run.is_possible()) {
        SCOPED_TRACE(cat(ways, " ways", striped ? ", striped" : ""));
        run.prove();
        ++proved;
      }
    }
  }
  return proved;
}

TEST(Blocks, EveryEntryHolds) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(7);
  int entries = 0;
  for (const OpDef& def : all_ops()) {
    if (!def.blocks) {
      continue;
    }
    ++entries;
    for (const std::string_view text : def.examples) {
      SCOPED_TRACE(cat(def.name, text));
      Drawn drawn(def, text);
      drawn.run();
      // Three of neighbours, and striped in 2 and 4; not all of them where
      // queries and keys are not as many.
      EXPECT_GE(prove(drawn), 2);
    }
  }
  EXPECT_GE(entries, 2);
}

// Blocks are joined in f32.
TEST(Blocks, HalfPrecision) {
  Drawn drawn(
      *find_op("aten._scaled_dot_product_flash_attention_for_cpu"),
      "(bf16[2, 4, 8, 16], bf16[2, 2, 8, 16], bf16[2, 2, 8, 16], 0.0, true)");
  drawn.run();
  EXPECT_EQ(prove(drawn), 5);
}

// Queries that a mask keeps from all keys of a block, and from all keys.
TEST(Blocks, AttendToNothing) {
  const double hidden = -std::numeric_limits<double>::infinity();
  const OpDef& def =
      *find_op("aten._scaled_dot_product_flash_attention_for_cpu");
  Drawn drawn(
      def,
      "(f64[1, 2, 4, 8], f64[1, 2, 8, 8], f64[1, 2, 8, 8], "
      "attn_mask=f64[4, 8])");
  drawn.operands[3][1].fill_(hidden);
  drawn.operands[3][2].slice(0, 0, 4).fill_(hidden);
  drawn.operands[3][3].slice(0, 2, 8).fill_(hidden);
  drawn.run();
  EXPECT_EQ(prove(drawn), 5);
}

}  // namespace
}  // namespace weft
