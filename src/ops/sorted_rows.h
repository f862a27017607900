// SPDX-License-Identifier: Apache-2.0
// Finds where a step sorts rows by expert: every token has chosen some experts,
// the choices are sorted, the tokens' rows are read in that order, each
// expert's rows go through products with its own matrices, and what comes out
// is brought back to where it belongs. In which order the rows of one expert
// stand, and whose rows stand together, changes nothing of what comes out: so
// they can be sorted sample by sample, and each expert's be on another rank
// (lower/group_rows.cpp).
//
//   %sorted, %order = aten.sort(%ids)              choices [S]
//   %count = aten.histc(...); %ends = aten.cumsum(%count, 0)
//   %rows = aten.index(%tokens, [%order // k])     Take
//   %up = aten._grouped_mm(%rows, %matrices, %ends)  Product
//   %act = aten.silu(%up)                          Plain
//   %out = aten.index(%down, [inverse of %order])  Add
//
// and the same in backward.
#pragma once

#include "graph/graph.h"
#include "ops/rule_memo.h"

#include <cstdint>
#include <map>
#include <vector>

namespace weft {

enum class RowUse : uint8_t {
  Take,       // rows of a tensor, in sorted order
  Add,        // sorted rows are added up where they came from
  Product,    // of sorted rows with one matrix an expert, or a matrix of each
  TakeGroup,  // each row gets what its expert has in a table
  AddGroup,   // rows are added up by expert
  Plain,      // every row by itself
};

struct RowNode {
  size_t node = 0;
  RowUse use = RowUse::Plain;
  // Take, TakeGroup: what rows are read of. Add, AddGroup: the sorted rows.
  ValueId from = ValueId::None;
  // Take, Add: choices that share a row of the tensor; 1: each has its own.
  int64_t share = 1;
  // Add: what they are added to, where that is not zero.
  ValueId base = ValueId::None;
  // Plain: the rule's factor that counts rows.
  int factor = -1;
};

struct SortedRows {
  // The node that sorts.
  size_t sort = 0;
  // The expert of each choice, unsorted.
  ValueId ids = ValueId::None;
  int64_t choices = 0;
  int64_t experts = 0;
  // In their order.
  std::vector<RowNode> nodes;
  // Values whose rows are sorted, and along which dim.
  std::map<ValueId, int> rows;
};

// All of which every use is understood; what only seems to sort by expert is
// not among them.
std::vector<SortedRows> sorted_rows(const Function& step, RuleMemo& rules);

}  // namespace weft
