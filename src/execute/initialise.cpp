// SPDX-License-Identifier: Apache-2.0
#include "execute/initialise.h"

#include "base/error.h"
#include "execute/evaluate.h"
#include "execute/fill_piece.h"
#include "execute/replay.h"

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
  for (const Input& input : init->inputs) {
    WEFT_CHECK_USER(
        input.kind == InputKind::Constant,
        "graph @",
        graph.name,
        ": init reads the ",
        name(input.kind),
        " ",
        quote(input.keys.front()),
        "; it may read constants only");
  }
  return *init;
}

}  // namespace

std::vector<at::Tensor> initialise(const Graph& graph, uint64_t seed) {
  const Function& init = init_of(graph);
  std::vector<at::Tensor> inputs;
  for (const Input& input : init.inputs) {
    inputs.push_back(constant_tensor(graph, input.keys.front()));
  }
  return evaluate(init, inputs, {seed, kInitStep});
}

Initialiser::Initialiser(const Graph& graph, uint64_t seed)
    : graph_(graph), init_(init_of(graph)), seed_(seed) {
  for (const Output& output : init_.outputs) {
    outputs_.try_emplace({output.kind, output.key}, output.value);
  }
}

void Initialiser::fill(
    OutputKind kind,
    const std::string& key,
    const std::vector<Piece>& box,
    const at::Tensor& into) const {
  const auto found = outputs_.find({kind, key});
  WEFT_CHECK_USER(
      found != outputs_.end(),
      "graph @",
      graph_.name,
      ": init makes no ",
      name(kind),
      " ",
      quote(key));
  fill_piece(graph_, init_, found->second, box, into, {seed_, kInitStep});
}

}  // namespace weft
