// SPDX-License-Identifier: Apache-2.0
#include "execute/initialise.h"

#include "base/error.h"
#include "execute/evaluate.h"
#include "execute/replay.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace weft {
namespace {

// A step that no run makes: the numbers of `init` are its own.
constexpr int64_t kInitStep = -1;

const Function& init_of(const Graph& graph) {
  const Function* init = find_function(graph, "init");
  WEFT_CHECK_USER(
      init != nullptr,
      "graph @",
      graph.name,
      " does not say how its parameters are made: it was captured from a live "
      "model. Give their values, or capture the function that builds the "
      "model");
  return *init;
}

// Keeps the nodes that the outputs depend on. Values keep their numbers.
void keep_needed(Function& function) {
  std::vector<bool> needed(function.values.size(), false);
  for (const Output& output : function.outputs) {
    needed[index(output.value)] = true;
  }
  std::vector<Node> kept;
  for (size_t i = function.nodes.size(); i-- > 0;) {
    Node& node = function.nodes[i];
    bool is_needed = false;
    for (const ValueId id : node.results) {
      is_needed = is_needed || needed[index(id)];
    }
    if (is_needed) {
      for_each_operand(node, [&](ValueId id) { needed[index(id)] = true; });
      kept.push_back(std::move(node));
    }
  }
  function.nodes.assign(
      std::make_move_iterator(kept.rbegin()),
      std::make_move_iterator(kept.rend()));
}

std::vector<at::Tensor> run(
    const Graph& graph, const Function& init, uint64_t seed) {
  std::vector<at::Tensor> inputs;
  for (const Input& input : init.inputs) {
    WEFT_CHECK_USER(
        input.kind == InputKind::Constant,
        "graph @",
        graph.name,
        ": init reads the ",
        name(input.kind),
        " ",
        quote(input.keys.front()),
        "; it may read constants only");
    inputs.push_back(constant_tensor(graph, input.keys.front()));
  }
  return evaluate(init, inputs, {seed, kInitStep});
}

}  // namespace

std::vector<at::Tensor> initialise(const Graph& graph, uint64_t seed) {
  return initialise(graph, seed, init_of(graph).outputs);
}

std::vector<at::Tensor> initialise(
    const Graph& graph, uint64_t seed, const std::vector<Output>& wanted) {
  const Function& init = init_of(graph);
  Function slice = init;
  slice.outputs.clear();
  for (const Output& output : wanted) {
    const auto found = std::find_if(
        init.outputs.begin(), init.outputs.end(), [&](const Output& known) {
          return known.kind == output.kind && known.key == output.key;
        });
    WEFT_CHECK_USER(
        found != init.outputs.end(),
        "graph @",
        graph.name,
        ": init makes no ",
        name(output.kind),
        " ",
        quote(output.key));
    slice.outputs.push_back(*found);
  }
  keep_needed(slice);
  return run(graph, slice, seed);
}

}  // namespace weft
