// SPDX-License-Identifier: Apache-2.0
// Putting nodes into a step: what the rewritings of training.h share.
#pragma once

#include "graph/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// True for the nodes that stand for a step of an optimizer (`weft.adamw`).
bool is_optimizer_step(const Node& node);

// The step of the graph; UserError when no node of it is an optimizer's.
Function& step_with_optimizer(Graph& graph, std::string_view what_for);

// A parameter and the gradient that is used for it.
struct GradientUse {
  std::string key;
  ValueId gradient = ValueId::None;
  // The node that reads it, or None for a parameter without an optimizer.
  NodeId optimizer = NodeId::None;
};

// In the order of the model's parameters.
std::vector<GradientUse> gradient_uses(const Function& step);

// The node that starts backward with a gradient of 1 for the loss.
NodeId backward_start(const Function& step);
ValueId loss_of(const Function& step);

// Collects nodes and puts them before the optimizer's steps.
class StepBuilder {
 public:
  explicit StepBuilder(Function& step);

  // The result of a new node of the optimizer phase, called `local` in the
  // module at `path` (counted when the name is taken).
  ValueId add(
      Node node,
      std::string_view path,
      std::string_view local,
      TensorType type);

  // A name of a value for `key`'s parameter: "fc/weight.clipped".
  ValueId add_for(
      Node node,
      const std::string& key,
      const std::string& part,
      TensorType type);

  ValueId add_input(InputKind kind, const std::string& key, TensorType type);

  // Every optimizer's step keeps all as it was when `flag` is not 0, besides
  // what it was skipped for before.
  void skip_by(ValueId flag);

  // Puts the nodes in their place and numbers all anew: ValueIds from before do
  // not hold after it.
  void finish();

 private:
  Function& step_;
  NameTable names_;
  std::vector<Node> added_;
};

// f32[]
TensorType one_number();

}  // namespace weft
