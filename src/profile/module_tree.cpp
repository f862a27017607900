// SPDX-License-Identifier: Apache-2.0
#include "profile/module_tree.h"

namespace weft {
namespace {

// "a.b" of "a.b.c"; "" of "a".
std::string_view before_last_dot(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{}
                                       : path.substr(0, dot);
}

}  // namespace

ModuleTree::ModuleTree(const Graph& graph) {
  entries_.push_back({});
  by_path_.emplace("", kRoot);
  for (const Module& module : graph.modules) {
    entries_[static_cast<size_t>(find(module.path))].type = module.type;
  }
}

int32_t ModuleTree::find(std::string_view path) {
  const auto known = by_path_.find(path);
  if (known != by_path_.end()) {
    return known->second;
  }
  const int32_t parent = find(before_last_dot(path));
  const auto made = static_cast<int32_t>(entries_.size());
  entries_.push_back({
      .path = path,
      .type = {},
      .parent = parent,
      .depth = entries_[static_cast<size_t>(parent)].depth + 1,
  });
  by_path_.emplace(path, made);
  return made;
}

int32_t ModuleTree::owner(std::string_view key) {
  return find(before_last_dot(key));
}

std::vector<int32_t> ModuleTree::in_order() const {
  std::vector<std::vector<int32_t>> children(entries_.size());
  for (size_t i = 1; i < entries_.size(); ++i) {
    children[static_cast<size_t>(entries_[i].parent)].push_back(
        static_cast<int32_t>(i));
  }
  std::vector<int32_t> order;
  std::vector<int32_t> waiting{kRoot};
  while (!waiting.empty()) {
    const int32_t next = waiting.back();
    waiting.pop_back();
    order.push_back(next);
    const auto& below = children[static_cast<size_t>(next)];
    waiting.insert(waiting.end(), below.rbegin(), below.rend());
  }
  return order;
}

}  // namespace weft
