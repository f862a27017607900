// SPDX-License-Identifier: Apache-2.0
// Which storages a function makes, how large they are and when they are alive,
// when its nodes run one after another as eager PyTorch runs them.
#pragma once

#include "graph/graph.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft {

enum class StorageKind : uint8_t {
  Parameter,
  State,  // of the optimizer
  Buffer,
  Input,  // the batch, scalars and constants
  Gradient,
  // Made in forward and still alive when backward begins.
  Activation,
  // All else that nodes make.
  Temporary,
};
constexpr size_t kStorageKinds = 7;

// "parameters", "optimizer_state", ...: the keys of reports.
std::string_view name(StorageKind kind);

struct Storage {
  // The value it was made for; others may lie in it too.
  ValueId value = ValueId::None;
  int64_t bytes = 0;
  // The node that makes it; None: it is there before the first node.
  NodeId first = NodeId::None;
  // The node after which it is given back; None: it is there after the last.
  NodeId last = NodeId::None;
  StorageKind kind = StorageKind::Temporary;

  bool operator==(const Storage&) const = default;
};

struct Lifetimes {
  // Those of the inputs first, then in the order in which nodes make them.
  std::vector<Storage> storages;
  // For every value, the index of the storage in which it lies.
  std::vector<int32_t> storage_of;
  // From the recorded releases; otherwise each storage ends with its last use.
  bool recorded = false;

  const Storage& operator[](ValueId value) const {
    return storages[static_cast<size_t>(storage_of[index(value)])];
  }
};

// A node's results lie in new storages, except:
//  - a view's results lie where its operand 0 lies;
//  - result 0 lies where the value that the node `overwrites` lies;
//  - a parameter, buffer or state after the step lies where it lay before.
// What the function takes in is alive all the time. Any other storage dies
// after the node that releases it; without a release it outlives the function.
// A function with no release at all (written by hand) gets lifetimes up to the
// last use, and its outputs outlive it.
Lifetimes lifetimes(const Function& function);

inline bool is_alive(const Storage& storage, NodeId during) {
  return (storage.first == NodeId::None || storage.first <= during) &&
         (storage.last == NodeId::None || during <= storage.last);
}

// For every node, the bytes alive while it runs: what was there before, its
// results, what it gives back afterwards. Without scratch.
std::vector<int64_t> live_bytes(
    const Function& function, const Lifetimes& lifetimes);

// The bytes alive while a node runs, by kind.
std::array<int64_t, kStorageKinds> live_bytes_by_kind(
    const Lifetimes& lifetimes, NodeId during);

}  // namespace weft
