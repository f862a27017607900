// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/layout.h"
#include "ops/node_builder.h"
#include "program/program.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Where instructions go: one rank's block, and the names that it has used.
struct Emitter {
  Block& block;
  const Mesh& mesh;
  int64_t rank = 0;
  Phase phase = Phase::Forward;
  NameTable& names;

  // Appends a call with one result, named after `base`, and returns that.
  ValueId call(
      std::string_view op,
      std::vector<Arg> args,
      TensorType type,
      Layout layout,
      const std::string& base);
  // Likewise a transfer, waited for at once.
  ValueId transfer(
      TransferKind kind,
      ValueId operand,
      const Axes& axes,
      TensorType type,
      Layout layout,
      const std::string& base);
  // Begin a transfer with one other rank; the caller appends the wait. What is
  // sent is called `base`.sent, what is received `name`, or is a value already.
  ValueId start_send(ValueId value, int64_t peer, const std::string& base);
  ValueId start_receive(
      TensorType type, Layout layout, int64_t peer, const std::string& name);
  void start_receive(ValueId into, int64_t peer);
  void wait(ValueId value);
  // What `append` appends, whole on the rank, named after `base`; gives the
  // results that it gives.
  std::vector<ValueId> build(
      const std::string& base,
      const std::function<std::vector<ValueId>(NodeBuilder&)>& append);
  // The value itself, or a copy of it, without gaps and in the order of its
  // dims.
  ValueId row_major(ValueId value, const std::string& base);
  // The value itself, or a copy of it, with the strides of `type`, which has
  // its sizes. UserError for strides with gaps: what lay in them is not part of
  // the value.
  ValueId laid_out_as(
      ValueId value, const TensorType& type, const std::string& base);
};

// Puts `values` in the place of the node's operands, in order.
void set_operands(Node& node, const std::vector<ValueId>& values);

}  // namespace weft
