// SPDX-License-Identifier: Apache-2.0
#include "ops/op_page.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/example.h"
#include "ops/families.h"

#include <utility>

namespace weft {

namespace {

constexpr std::string_view kIntroduction = R"(# Operators

Printed by `weft opt --list-ops`; [adding an op](adding_an_op.md) says how the table is made.

A rule says how dims of the operands and results line up for the example beside it: a word is a factor that can be
split, with its size where it first stands.

| mark | meaning |
|---|---|
| on both sides | every rank computes its piece |
| missing in a result | a split gives partial sums there (or `:mean`, `:max`, `:min`, `:product`) |
| `f!` | stays whole, unless the op is *expanded* into others |
| `f~` | a piece needs its neighbours' borders |
| `f?` | looked up by an index: a split gives masked partial sums, or each piece its own rows |
| `(a b)` | one dim made of two factors |
| `_` | takes no part |

*linear* says in which operands a partial sum may go in and come out as one.
)";

std::string rule_text(const OpDef& def, std::string_view text) {
  Example example = parse_example(def, text);
  try {
    if (def.types == nullptr) {
      return print(rule_of(example.function, example.node));
    }
    const std::vector<TensorType> types =
        def.types(example.function, example.node);
    std::vector<std::string> names;
    for (size_t i = 0; i < types.size(); ++i) {
      names.push_back(cat("result", i));
    }
    const NodeId id =
        add_node(example.function, std::move(example.node), names, types);
    return print(rule_of(example.function, example.function.nodes[index(id)]));
  } catch (const InternalError&) {
    // Sizes that only the results tell.
    return "";
  }
}

std::string_view word(Linear linear) {
  switch (linear) {
    case Linear::No:
      return "";
    case Linear::First:
      return "first";
    case Linear::Each:
      return "each";
    case Linear::All:
      return "all";
  }
  return "";
}

// `|` ends a cell, and stands in no rule or call.
std::string code(std::string_view text) {
  return text.empty() ? "" : cat("`", text, "`");
}

std::string row(const OpDef& def) {
  const std::string_view example =
      def.examples.empty() ? std::string_view() : def.examples.front();
  const bool splits = def.kind != OpKind::DataDependent && !example.empty();
  return cat(
      "| ",
      code(def.name),
      " | ",
      code(splits ? rule_text(def, example) : ""),
      " | ",
      code(example),
      " | ",
      word(def.linear),
      " | ",
      def.expand != nullptr ? "yes" : "",
      " | ",
      code(def.backward),
      " |\n");
}

}  // namespace

std::string print_op_page() {
  std::string out(kIntroduction);
  for (const OpFamily& family : op_families()) {
    OpTable ops;
    family.add(ops);
    out += cat("\n## ", family.name, "\n\n");
    out += "| operator | rule | example | linear | expanded | backward |\n";
    out += "|---|---|---|---|---|---|\n";
    for (const OpDef& def : ops) {
      out += row(def);
    }
  }
  return out;
}

}  // namespace weft
