// SPDX-License-Identifier: Apache-2.0
// Taking nodes out of a function, with the consequences for storages: what
// passes share.
#pragma once

#include "graph/graph.h"

#include <string>
#include <vector>

namespace weft {

// Which nodes go, and what stands in for their results.
struct Edit {
  // By node.
  std::vector<bool> removed;
  // By value: itself, or the earlier value that is read in its place. What
  // stands in for a removed node's result that nothing reads does not matter.
  std::vector<ValueId> stand_in;
};

// The edit that changes nothing.
Edit start_edit(const Function& function);

// Takes the nodes out, lets the others and the outputs read the stand-ins, and
// renumbers. Storages follow: what holds a stand-in lives as long as what it
// stands for did and at least to its last reader; a node that took over a
// storage still in use gets one of its own.
void apply(const Edit& edit, Function& function);

// By value, the first value that lies in the same storage: a view lies where
// its operand 0 lies, result 0 where the value that the node overwrites lies.
std::vector<ValueId> storages(const Function& function);

// A text that is equal for two calls that compute the same: operator,
// arguments and result types. Two random calls draw the same numbers when their
// `rng` is equal, which is an argument.
std::string call_key(const Function& function, Node call);

// False for calls of which two with equal keys need not be equal: random ones
// without `rng`. Results left unset are equal to any others.
bool is_repeatable(const Node& node);

}  // namespace weft
