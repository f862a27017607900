// SPDX-License-Identifier: Apache-2.0
#include "ops/verify_calls.h"

#include "base/error.h"
#include "ops/op_def.h"

#include <exception>

namespace weft {
namespace {

// What a check of ours says, without the place in our sources and the
// condition: "src/ops/call.cpp:110: check failed: i < size. WHAT".
std::string fault_of(const std::exception& error) {
  const std::string_view what = error.what();
  constexpr std::string_view kCheck = "check failed: ";
  const size_t check = what.find(kCheck);
  const size_t end =
      check == std::string_view::npos ? check : what.find(". ", check);
  return std::string(
      end == std::string_view::npos ? what : what.substr(end + 2));
}

void ask_all(const Function& function, const Node& node) {
  rule_of(function, node);
  types_of(function, node);
  flops_of(function, node);
  hidden_flops_of(function, node);
  scratch_bytes_of(function, node);
  work_bytes_of(function, node);
  special_of(node);
}

}  // namespace

void verify_calls(const Function& function) {
  for (const Node& node : function.nodes) {
    try {
      ask_all(function, node);
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      throw UserError(
          cat("[graph] @",
              function.name,
              ": %",
              function[node.results.front()].name,
              ": ",
              node.op,
              " cannot be called so: ",
              fault_of(error)));
    }
  }
}

void verify_calls(const Graph& graph) {
  for (const Function& function : graph.functions) {
    verify_calls(function);
  }
}

}  // namespace weft
