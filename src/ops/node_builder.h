// SPDX-License-Identifier: Apache-2.0
// Appends calls to a function in the place of one node: what expansions, and
// passes that make one node into several, write their nodes with.
#pragma once

#include "graph/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A pass that replaces nodes moves them out of the function first and puts
// back, in order, those that it keeps (`keep`) and calls for the others;
// `renumber` ends it.
class NodeBuilder {
 public:
  // New names differ from those of all values that the function has now.
  explicit NodeBuilder(Function& function);
  // They are new in this table, which may know more than the function has.
  NodeBuilder(Function& function, NameTable& names);
  // It refers to what it holds.
  NodeBuilder(const NodeBuilder&) = delete;
  NodeBuilder& operator=(const NodeBuilder&) = delete;

  // The node that the following calls stand for. They get its phase, and names
  // made from that of its result 0: "%fc/softmax.exp" for an aten.exp. The node
  // is only read here.
  void begin(const Node& node);
  void begin(std::string_view name, Phase phase);

  // Appends a call and gives its result, typed by the op table. Throws
  // InternalError when the table has no types for it.
  ValueId call(
      std::string_view op,
      std::vector<Arg> args,
      std::vector<Option> options = {});

  // The same with all results, of types that the caller knows. The node's own
  // results and phase do not matter.
  std::vector<ValueId> call(Node node, const std::vector<TensorType>& types);

  // Appends a node as it is.
  void keep(Node node);

  const Function& function() const { return function_; }
  // A copy: the next call may move the values.
  TensorType type(ValueId value) const { return function_[value].type; }

 private:
  Function& function_;
  NameTable own_names_;
  NameTable& names_;
  std::string path_;
  std::string stem_;
  Phase phase_ = Phase::Forward;
};

}  // namespace weft
