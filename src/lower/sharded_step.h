// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"
#include "graph/layout.h"
#include "lower/pass.h"
#include "ops/rule.h"

#include <vector>

namespace weft {

// What the blocks of all ranks have in common: where every value lies, and
// where each of its readers needs it.
class ShardedStep {
 public:
  // Keeps a reference.
  explicit ShardedStep(const Lowering& lowering);

  const Lowering& lowering() const { return lowering_; }
  const Mesh& mesh() const { return lowering_.mesh; }
  const Function& step() const { return step_; }
  const Rule& rule(size_t node) const { return *rules_[node]; }
  const Assignment& assignment(size_t node) const {
    return lowering_.assignments[node];
  }

  // Where the value lies from when it is made.
  const Layout& resting(ValueId value) const {
    return lowering_.resting[index(value)];
  }
  // Where operand number `operand` of a node must lie.
  const Layout& operand(size_t node, size_t operand) const {
    return operands_[node][operand];
  }
  // Where an output must lie: as the input of its name, which it replaces; a
  // gradient as its parameter; others anywhere, but summed.
  const Layout& output(size_t number) const { return outputs_[number]; }
  // All layouts in which the value is needed, the least split first: from the
  // whole, pieces are cut for nothing.
  const std::vector<Layout>& needed(ValueId value) const {
    return needed_[index(value)];
  }

  // Whether what lies in the value's storage is read after the value was made,
  // through another value than this one or its views.
  bool is_read_again(ValueId value) const;

 private:
  void need(ValueId value, Layout layout);
  void find_outputs();
  void find_storages();

  const Lowering& lowering_;
  const Function& step_;
  const std::vector<std::vector<NodeId>> readers_;
  const std::vector<const Rule*> rules_;
  // By node and operand.
  std::vector<std::vector<Layout>> operands_;
  std::vector<Layout> outputs_;
  std::vector<std::vector<Layout>> needed_;
  // For every value the one whose storage it lies in, and for that all of them.
  std::vector<ValueId> storage_;
  std::vector<std::vector<ValueId>> in_storage_;
};

}  // namespace weft
