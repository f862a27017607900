// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"

namespace weft {

bool matches(std::string_view pattern, std::string_view name) {
  // Where the last '*' was, and how far it has stretched: on a mismatch it
  // stretches by one more.
  size_t star = std::string_view::npos;
  size_t stretched = 0;
  size_t p = 0;
  size_t n = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      stretched = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++stretched;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

const Decision* decision_for(const Plan& plan, std::string_view value_name) {
  for (auto it = plan.decisions.rbegin(); it != plan.decisions.rend(); ++it) {
    if (matches(it->pattern, value_name)) {
      return &*it;
    }
  }
  return nullptr;
}

namespace {

bool is_pattern_char(char c) { return is_name_char(c) || c == '*'; }

// The message's start: which plan, which decision, which value.
std::string where(
    const Plan& plan, const Decision& decision, const std::string& value) {
  return cat(
      "plan @",
      plan.graph,
      ": %",
      decision.pattern,
      " ",
      print(decision.layout),
      value == decision.pattern ? "" : cat(" (for %", value, ")"),
      ": ");
}

void verify_decision(
    const Plan& plan, const Decision& decision, const Value& value) {
  const std::string start = where(plan, decision, value.name);
  try {
    verify(decision.layout, value.type, plan.mesh);
  } catch (const UserError& error) {
    throw UserError(cat(start, error.what()));
  }
  for (size_t dim = 0; dim < decision.layout.dims.size(); ++dim) {
    const int64_t pieces = ways(plan.mesh, axes_of(decision.layout.dims[dim]));
    WEFT_CHECK_USER(
        value.type.sizes[dim] >= pieces,
        start,
        "dim ",
        dim,
        " of ",
        print(value.type),
        " is too small for ",
        pieces,
        " pieces");
  }
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out = cat("plan @", plan.graph, " on ", print(plan.mesh), " {\n");
  if (plan.local_batch_norm) {
    out += "  local batch_norm\n";
  }
  if (plan.recompute_cheap) {
    out += "  recompute cheap\n";
  }
  for (const Decision& decision : plan.decisions) {
    out += cat("  %", decision.pattern, " ", print(decision.layout), "\n");
  }
  return out + "}\n";
}

Plan parse_plan(std::string_view text, const std::string& source) {
  Scanner scanner(text, source);
  Plan plan;
  scanner.expect("plan");
  scanner.expect("@");
  plan.graph = scanner.expect_run(is_name_char, "the name of a graph");
  scanner.expect("on");
  plan.mesh = parse_mesh(scanner);
  scanner.expect("{");
  if (scanner.take("local")) {
    scanner.expect("batch_norm");
    plan.local_batch_norm = true;
  }
  if (scanner.take("recompute")) {
    scanner.expect("cheap");
    plan.recompute_cheap = true;
  }
  while (!scanner.take("}")) {
    Decision decision;
    scanner.expect("%");
    decision.pattern =
        scanner.expect_run(is_pattern_char, "the name of a value or a pattern");
    decision.layout = parse_layout(scanner);
    plan.decisions.push_back(std::move(decision));
  }
  if (!scanner.at_end()) {
    scanner.fail_expected("the end after '}'");
  }
  return plan;
}

void verify(const Plan& plan, const Graph& graph) {
  verify(plan.mesh);
  WEFT_CHECK_USER(
      plan.graph == graph.name,
      "the plan is for graph @",
      plan.graph,
      ", and this is graph @",
      graph.name);
  const Function& step = step_of(graph);
  for (const Decision& decision : plan.decisions) {
    bool found = false;
    for (const Value& value : step.values) {
      found = found || matches(decision.pattern, value.name);
    }
    WEFT_CHECK_USER(
        found,
        where(plan, decision, decision.pattern),
        "no value of the step has such a name");
  }
  for (const Value& value : step.values) {
    if (const Decision* decision = decision_for(plan, value.name)) {
      verify_decision(plan, *decision, value);
    }
  }
}

}  // namespace weft
