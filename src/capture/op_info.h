// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op_def.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace weft {

// What the recorder does with a call.
enum class CallKind {
  // Made of other operators: let it run into them.
  Composite,
  // Shares the storage of its first argument; touches no data.
  View,
  // Changes arguments in place: recorded as `functional`.
  Mutation,
  // Writes its results into tensors given as `out`: recorded as `functional`.
  Out,
  // Gives numbers read from tensors (`item`): needs values.
  ValueRead,
  // Gives no tensor and reads no values: runs as it is, is not recorded.
  Query,
  // Result shapes depend on data.
  DataDependent,
  // Everything else.
  Compute,
};

// How one argument of the schema is written into a Graph.
enum class ArgForm { Plain, DType, MemoryFormat, Dropped };

// What the recorder needs to know of one operator, worked out once from its
// schema and its entry in the op table.
struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& op) : functional(op) {}

  CallKind kind = CallKind::Compute;
  // "aten.add.Tensor" of the functional form.
  std::string name;
  // "add": the stem of value names.
  std::string stem;
  // The functional form of a Mutation, else the operator itself.
  c10::OperatorHandle functional;
  // Arguments changed in place.
  std::vector<size_t> mutated;
  // How many results the operator itself has, when it changes arguments that
  // it does not return (batch norm): they follow in the functional form.
  bool returns_mutated = true;
  std::vector<ArgForm> forms;
  // A view of which nothing is recorded: where the memory lies and how it is to
  // be read (conjugated, negated) says all.
  bool is_worked_out = false;
  bool random = false;
  bool has_tensor_argument = false;
  // The argument that asks for a sparse gradient, or -1.
  int sparse_argument = -1;
  // Its entry, or nullptr.
  const OpDef* def = nullptr;
};

// Cached for the life of the process.
const OpInfo& info_of(const c10::OperatorHandle& op);

}  // namespace weft
