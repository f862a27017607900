// SPDX-License-Identifier: Apache-2.0
// What the next step reads as its parameter, buffer or state must lie where
// this step found it. A call that may write over its operand does so (the
// optimizers); any other new value is copied there at the end.
#include "base/error.h"
#include "lower/in_place.h"
#include "lower/pass.h"

#include <utility>

namespace weft {
namespace {

class Carry {
 public:
  explicit Carry(Block& block) : block_(block), reuse_(block) {}

  void run() {
    Function& function = block_.function;
    for (const Input& input : function.inputs) {
      const int found = replacement_of(function, input);
      if (found < 0) {
        continue;
      }
      Output& output = function.outputs[static_cast<size_t>(found)];
      if (reuse_.storage(output.value) == input.value ||
          reuse_.overwrite(output.value, input.value)) {
        continue;
      }
      copies_.emplace_back(input.value, &output);
    }
    for (const auto& [input, output] : copies_) {
      copy(input, *output);
    }
  }

 private:
  void copy(ValueId input, Output& output) {
    const std::string name = cat(block_.function[input].name, ".kept");
    WEFT_CHECK_USER(
        block_.function[input].type == block_.function[output.value].type,
        "%",
        block_.function[output.value].name,
        " is ",
        print(block_.function[output.value].type),
        ", and %",
        block_.function[input].name,
        ", which it replaces, is ",
        print(block_.function[input].type));
    Node node;
    node.op = "aten.clone";
    node.args = {{output.value}};
    node.phase = block_.function.nodes.back().phase;
    const ValueId kept = add_value(
        block_,
        name,
        block_.function[input].type,
        block_.layouts[index(output.value)]);
    node.results = {kept};
    block_.overwrites[index(kept)] = input;
    block_.instructions.emplace_back(
        Call{static_cast<NodeId>(block_.function.nodes.size())});
    block_.function.nodes.push_back(std::move(node));
    block_.scratch.emplace_back();
    output.value = kept;
  }

  Block& block_;
  Reuse reuse_;
  std::vector<std::pair<ValueId, Output*>> copies_;
};

}  // namespace

void carry(Lowering& lowering) {
  for (Block& block : lowering.program.blocks) {
    Carry(block).run();
  }
}

}  // namespace weft
