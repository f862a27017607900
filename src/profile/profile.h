// SPDX-License-Identifier: Apache-2.0
// The Profile: what a step costs when one device runs it node by node, as
// eager PyTorch does. Computed from the Graph; nothing is run. Every figure is
// defined in docs/profile.md.
#pragma once

#include "cluster/cluster.h"
#include "graph/graph.h"
#include "profile/layer_classes.h"
#include "profile/lifetimes.h"

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct PhaseFlops {
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t recompute = 0;
  int64_t optimizer = 0;

  bool operator==(const PhaseFlops&) const = default;
};

int64_t total(const PhaseFlops& flops);

struct KindBytes {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_state = 0;
  int64_t buffers = 0;
  int64_t inputs = 0;
  int64_t activations = 0;
  // The most temporaries and scratch alive at one time.
  int64_t temporaries = 0;

  bool operator==(const KindBytes&) const = default;
};

// What a part of the step costs: all of it, a module with those inside it, an
// operator, a phase. Storages count where they are made; parameters, their
// gradients and states, and buffers in the module that has them.
struct Costs {
  int64_t nodes = 0;
  int64_t parameters = 0;
  PhaseFlops flops;
  KindBytes bytes;
  // Read and written by all nodes.
  int64_t moved_bytes = 0;

  bool operator==(const Costs&) const = default;
};

// Flops a byte moved; 0 where nothing moves.
double arithmetic_intensity(const Costs& costs);

// `count` products of a matrix of rows x depth and one of depth x columns.
struct ProductSize {
  int64_t count = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;

  bool operator==(const ProductSize&) const = default;
};

struct NodeCosts {
  // What its flops are for.
  Work work = Work::Elementwise;
  // Zeros where it is no product, or not of two matrices.
  ProductSize product = {};
  int64_t flops = 0;
  // Of these, what no kernel computes, for a mask hides it.
  int64_t hidden_flops = 0;
  // Parts that it computes one by one: the products of a batch, the heads of
  // all samples.
  int64_t parts = 1;
  // Elements for which it evaluates a function that is many operations.
  int64_t functions = 0;
  // A view, or memory that is left unset: no kernel is called.
  bool is_free = false;
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  int64_t scratch_bytes = 0;

  bool operator==(const NodeCosts&) const = default;
};

struct ModuleCosts {
  // "" for the model itself.
  std::string path;
  // The class, when the graph names it.
  std::string type;
  // Levels below the model.
  int depth = 0;
  Costs costs;
};

struct OpCosts {
  std::string op;
  // Without an entry in the op table: whole on every rank, a flop an element.
  bool is_unruled = false;
  Costs costs;
};

struct PhaseCosts {
  Phase phase = Phase::Forward;
  Costs costs;
  // The most bytes alive while one of its nodes runs, scratch included.
  int64_t peak_bytes = 0;
};

// When most bytes are alive, and which.
struct Peak {
  struct LargeStorage {
    std::string name;  // of the value it was made for
    StorageKind kind = StorageKind::Temporary;
    int64_t bytes = 0;
  };

  int64_t bytes = 0;
  // None when the step has no nodes.
  NodeId node = NodeId::None;
  // The name of its first result, its operator and its phase.
  std::string name;
  std::string op;
  Phase phase = Phase::Forward;
  // Indexed by StorageKind; with scratch_bytes, they add up to `bytes`.
  std::array<int64_t, kStorageKinds> alive_bytes{};
  int64_t scratch_bytes = 0;
  // Largest first, a few.
  std::vector<LargeStorage> largest;
};

struct Profile {
  std::string model;
  Costs whole;
  int64_t trained_parameters = 0;
  Peak peak;
  std::vector<LayerClass> layer_classes;
  // A module before those inside it, the model itself first.
  std::vector<ModuleCosts> modules;
  // Most flops first.
  std::vector<OpCosts> ops;
  // Those that there are, in the order of the step.
  std::vector<PhaseCosts> phases;

  // By node of the step.
  std::vector<NodeCosts> nodes;
  // Bytes alive while it runs, scratch included.
  std::vector<int64_t> live_bytes;
  Lifetimes lifetimes;

  // How long it took to make the model, to write down its step, and to profile
  // it. The first two are known to who did that.
  std::optional<double> build_seconds;
  std::optional<double> capture_seconds;
  double profile_seconds = 0;
};

Profile profile(const Graph& graph);

// All but the figures of single nodes; the keys are in docs/profile.md.
nlohmann::json to_json(const Profile& profile);

}  // namespace weft
