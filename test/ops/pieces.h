// SPDX-License-Identifier: Apache-2.0
// Real tensors cut into the pieces of a rule, and put together again.
#pragma once

#include "ops/example.h"
#include "ops/split.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// Random elements away from 0, where functions are well-behaved. Strides as the
// type says.
at::Tensor draw_tensor(const TensorType& type, const Draw& draw);
// All operands of an example, drawn as it says.
std::vector<at::Tensor> draw_operands(const Example& example);

// Like `drawn`, but every step of the windows has an index that its window
// holds, in a plane of these sizes (OpDef::plane_index). Its last dims are the
// steps.
at::Tensor indices_in_windows(
    const at::Tensor& drawn, const Rule& rule, const Dims& plane);

// The elements that the pieces have of an operand, in the same order of
// strides.
at::Tensor cut(
    const at::Tensor& whole,
    const Rule& rule,
    TensorPlace place,
    const Pieces& pieces);

// Joins result `result` of the parts, which differ in their piece of `factor`:
// part i has pieces[i]. `sizes` are those of the joined result.
at::Tensor join_parts(
    const std::vector<at::Tensor>& parts,
    const Rule& rule,
    int result,
    int factor,
    const std::vector<Pieces>& pieces,
    const Dims& sizes);

// Empty when equal up to rounding in `dtype`, else what differs.
std::string difference(const at::Tensor& got, const at::Tensor& expected);

}  // namespace weft
