// SPDX-License-Identifier: Apache-2.0
// Walks the op table and proves every entry (see prover.h).
#include "base/text.h"
#include "ops/expand.h"
#include "prover.h"

#include <ATen/Context.h>

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(RuleProof, EveryEntryHolds) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(7);
  // Only entries whose name contains this, while one is being written.
  const char* only = std::getenv("WEFT_PROVE");
  Proof proof;
  int64_t entries = 0;
  for (const OpDef& def : all_ops()) {
    if (only == nullptr || def.name.find(only) != std::string_view::npos) {
      ++entries;
      prove(def, proof);
    }
  }
  for (const std::string& failure : proof.failures) {
    ADD_FAILURE() << failure;
  }
  std::puts(cat(entries,
                " entries, ",
                proof.examples,
                " examples, ",
                proof.splits,
                " splits, ",
                proof.double_splits,
                " double splits, ",
                proof.expansions,
                " expansions with ",
                proof.expanded_splits,
                " splits, ",
                proof.types,
                " types of ours and ",
                proof.meta_types,
                " of meta kernels, ",
                proof.scratch,
                " scratch bytes, ",
                proof.flops,
                " flops, ",
                proof.linear,
                " sums, ",
                proof.not_run,
                " not run: ",
                proof.failures.size(),
                " failures")
                .c_str());
}

// The prover itself: an entry that says something wrong must fail.
struct Mutation {
  std::string_view name;
  void (*change)(OpDef&);
  // Part of the message.
  std::string_view message;
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.name << ": " << mutation.message;
}

class WrongEntry : public testing::TestWithParam<Mutation> {};

TEST_P(WrongEntry, IsFound) {
  const OpDef* right = find_op(GetParam().name);
  ASSERT_NE(right, nullptr);
  Proof proof;
  prove(*right, proof);
  EXPECT_EQ(proof.failures.size(), 0u);
  OpDef wrong = *right;
  GetParam().change(wrong);
  prove(wrong, proof);
  ASSERT_NE(proof.failures.size(), 0u);
  EXPECT_NE(proof.failures[0].find(GetParam().message), std::string::npos)
      << proof.failures[0];
}

INSTANTIATE_TEST_SUITE_P(
    RuleProof,
    WrongEntry,
    testing::Values(
        // Nodes that compute something else.
        Mutation{
            "aten._softmax",
            [](OpDef& def) { def.expand = expand_log_softmax; },
            "expanded, result 0"},
        // An expansion that frees nothing.
        Mutation{
            "aten._softmax",
            [](OpDef& def) {
              def.expand = [](NodeBuilder& builder, const Node& node) {
                const TensorType type = builder.type(node.results[0]);
                return builder.call(node, {type});
              };
            },
            "must have it whole"},
        // Dims that are not where the rule says.
        Mutation{
            "aten.mm",
            [](OpDef& def) { def.rule = "m k, n k -> m n"; },
            "its factors"},
        // A dim of the softmax may not be split.
        Mutation{
            "aten._softmax",
            [](OpDef& def) {
              def.rule_of = nullptr;
              def.rule = "... d -> ... d";
            },
            "differs by"},
        // Means are not added.
        Mutation{
            "aten.mean",
            [](OpDef& def) {
              def.rule_of = nullptr;
              def.rule = "a b -> ()";
            },
            "differs by"},
        // Pieces of a shape have the sizes of the whole.
        Mutation{
            "aten.view",
            [](OpDef& def) { def.sizes_arg = -1; },
            "is invalid for input"},
        // Pieces of a triangle are not triangles.
        Mutation{
            "aten.tril",
            [](OpDef& def) { def.localize = nullptr; },
            "differs by"},
        // Each rank adds all of the bias.
        Mutation{
            "aten.addmm",
            [](OpDef& def) { def.localize = nullptr; },
            "differs by"},
        // The rows that a piece looks up are not masked.
        Mutation{
            "aten.embedding",
            [](OpDef& def) { def.rule = "v e, ... -> ... e"; },
            "split v"},
        // A window without its border.
        Mutation{
            "aten.convolution",
            [](OpDef& def) {
              def.rule_of = [](const Function& function, const Node& node) {
                Rule rule = rule_of(function, node);
                for (Factor& factor : rule.factors) {
                  factor.window.before = 0;
                }
                return rule;
              };
            },
            "split"},
        Mutation{
            "aten.mm",
            [](OpDef& def) {
              def.flops = [](const Function& function, const Node& node) {
                return element_count(function[node.results[0]].type);
              };
            },
            "flops"},
        Mutation{
            "aten.exp",
            [](OpDef& def) { def.linear = Linear::All; },
            "not linear"},
        Mutation{
            "aten.relu",
            [](OpDef& def) {
              def.types = [](const Function& function, const Node& node) {
                const TensorType& self = function[operands(node)[0]].type;
                return std::vector{make_type(self.dtype, self.sizes)};
              };
            },
            "type of result 0"},
        Mutation{
            "aten.relu",
            [](OpDef& def) { def.types = nullptr; },
            "no meta kernel"},
        Mutation{
            "aten.exp", [](OpDef& def) { def.examples = {}; }, "no example"},
        Mutation{
            "aten.exp",
            [](OpDef& def) { def.examples = {"(f32[3])"}; },
            "no example splits factor dim0"}));

}  // namespace
}  // namespace weft
