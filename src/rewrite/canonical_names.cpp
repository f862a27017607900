// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "rewrite/graph_pass.h"

#include <string>

namespace weft {

namespace {

// "sum" of "aten.sum.dim_IntList".
std::string short_name(const std::string& op) {
  const std::vector<std::string> parts = split(op, '.');
  return parts.size() < 2 || parts[1].empty() ? op : parts[1];
}

}  // namespace

// Two graphs that compute the same by the same modules print the same, whatever
// was dropped from them before. Inputs keep their names: plans refer to them.
void give_canonical_names(Function& function) {
  NameTable names;
  for (const Input& input : function.inputs) {
    names.unique("", function[input.value].name);
  }
  for (const Node& node : function.nodes) {
    const std::string path(module_path(function, node));
    for (const ValueId id : node.results) {
      function[id].name = names.unique(path, short_name(node.op));
    }
  }
}

}  // namespace weft
