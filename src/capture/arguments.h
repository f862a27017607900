// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capture/op_info.h"
#include "graph/graph.h"

#include <ATen/core/stack.h>

#include <functional>

namespace weft {

using ValueOf = std::function<Arg(const at::Tensor&)>;

// Writes the arguments of a call (one IValue each, in the order of
// `info.functional`'s schema) into `node`: positional ones up to the last that
// differs from its default, keyword ones that differ. `value_of` turns a
// defined tensor into its value (or its number).
void write_arguments(
    const OpInfo& info,
    c10::ArrayRef<c10::IValue> arguments,
    const ValueOf& value_of,
    Node& node);

// Calls `visit(at::Tensor&)` for every tensor in an argument or a result, lists
// included; undefined ones too.
void for_each_tensor(
    const c10::IValue& value,
    const std::function<void(const at::Tensor&)>& visit);

// The same value with every tensor replaced by `replace(tensor)`.
c10::IValue map_tensors(
    const c10::IValue& value,
    const std::function<at::Tensor(const at::Tensor&)>& replace);

}  // namespace weft
