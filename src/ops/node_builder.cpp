// SPDX-License-Identifier: Apache-2.0
#include "ops/node_builder.h"

#include "base/error.h"
#include "base/text.h"
#include "ops/op_def.h"

#include <utility>

namespace weft {
namespace {

// "sum" of "aten.sum.dim_IntList".
std::string_view short_name(std::string_view op) {
  const size_t dot = op.find('.');
  const std::string_view rest =
      dot == std::string_view::npos ? op : op.substr(dot + 1);
  return rest.substr(0, rest.find('.'));
}

}  // namespace

NodeBuilder::NodeBuilder(Function& function)
    : function_(function), own_names_(function), names_(own_names_) {}

NodeBuilder::NodeBuilder(Function& function, NameTable& names)
    : function_(function), names_(names) {}

void NodeBuilder::begin(const Node& node) {
  WEFT_CHECK(!node.results.empty(), node.op, " has no results");
  begin(function_[node.results.front()].name, node.phase);
}

void NodeBuilder::begin(std::string_view name, Phase phase) {
  path_ = module_path(name);
  stem_ = path_.empty() ? name : name.substr(path_.size() + 1);
  phase_ = phase;
}

ValueId NodeBuilder::call(
    std::string_view op, std::vector<Arg> args, std::vector<Option> options) {
  Node node;
  node.op = op;
  node.args = std::move(args);
  node.options = std::move(options);
  const OpDef* def = find_op(op);
  WEFT_CHECK(def != nullptr && def->types != nullptr, "no types for ", op);
  const std::vector<TensorType> types = def->types(function_, node);
  WEFT_CHECK(!types.empty(), "only PyTorch knows the types of this ", op);
  return call(std::move(node), types).front();
}

std::vector<ValueId> NodeBuilder::call(
    Node node, const std::vector<TensorType>& types) {
  node.results.clear();
  node.releases.clear();
  node.overwrites = ValueId::None;
  node.phase = phase_;
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(names_.unique(path_, cat(stem_, ".", short_name(node.op))));
  }
  const NodeId id = add_node(function_, std::move(node), names, types);
  return function_.nodes[index(id)].results;
}

void NodeBuilder::keep(Node node) {
  function_.nodes.push_back(std::move(node));
}

}  // namespace weft
