// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

// The modules of a graph as a tree: those it declares and those its values are
// named after. Paths are views into the graph, which must outlive the tree.
class ModuleTree {
 public:
  struct Entry {
    std::string_view path;
    std::string_view type;
    int32_t parent = -1;
    int depth = 0;
  };

  static constexpr int32_t kRoot = 0;

  explicit ModuleTree(const Graph& graph);

  // The module of a path; makes it and those around it when they are new.
  int32_t find(std::string_view path);
  // The module that has the parameter, buffer or state of this key.
  int32_t owner(std::string_view key);

  const std::vector<Entry>& entries() const { return entries_; }
  // Indices of all modules, each before those inside it, siblings in the order
  // in which they were made.
  std::vector<int32_t> in_order() const;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, int32_t> by_path_;
};

}  // namespace weft
