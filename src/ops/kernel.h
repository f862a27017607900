// SPDX-License-Identifier: Apache-2.0
// What PyTorch's kernels do with types and memory: the words in which the
// families write their `types`, `flops` and `scratch_bytes`.
#pragma once

#include "ops/op_def.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// How a result that the kernel leaves undefined is recorded: sizes [0].
TensorType undefined_type();
bool is_undefined(const TensorType& type);

bool is_row_major(const TensorType& type);
// Every element of the storage belongs to exactly one index.
bool is_dense(const TensorType& type);
// Row-major or channels-last, as `model` is.
TensorType in_format_of(const TensorType& model, DType dtype, Dims sizes);
// As in_format_of, for kernels that take a `model` that is row-major, too, for
// row-major whatever its strides suggest.
TensorType in_contiguous_format_of(const TensorType& model);
// at::empty_like: the strides of a dense `model`, else its order of strides
// without gaps.
TensorType like(const TensorType& model);
TensorType like(const TensorType& model, DType dtype);
// One result with the sizes of operand 0, in the order of its strides unless a
// memory format is asked for, and its element type unless `dtype` says another.
std::vector<TensorType> copied_types(
    const Function& function, const Node& node);

// Bytes of all elements, laid out without gaps.
int64_t dense_bytes(const TensorType& type);
// Bytes that .contiguous() allocates: none for a row-major tensor.
int64_t copy_bytes(const TensorType& type);
// The same for the argument at a position; 0 when it is absent.
int64_t copy_bytes(const Function& function, const Node& node, size_t position);

// f32 for f16 and bf16, in which kernels on the CPU add up; else the same.
DType accumulate_type(DType dtype);

// Operations an element of the largest operand or result.
CountFunction per_element(int64_t operations);
// One operation an element of the first result.
int64_t count_result(const Function& function, const Node& node);

// Entry i of a list of booleans, such as output_mask.
bool flag_at(const Node& node, size_t position, size_t i);
// Entry i of a list of integers; a list of one stands for all, and an empty
// or absent one for `fallback`.
int64_t dim_at(const Node& node, size_t position, size_t i, int64_t fallback);

// at::Reduction, the last word of losses.
inline constexpr int64_t kNone = 0;
inline constexpr int64_t kMean = 1;
inline constexpr int64_t kSum = 2;

// `count` or the next multiple of `block`.
int64_t round_up(int64_t count, int64_t block);

// The dims before `spatial` ones in a rule: "n c", or "c" without a batch.
std::string plane(const TensorType& type, size_t spatial);
// A rule from one text a tensor: {"m k", "k n"} and {"m n"}.
Rule rule_from_terms(
    const std::vector<std::string>& operands,
    const std::vector<std::string>& results,
    const Function& function,
    const Node& node);

// Repeats `word` followed by its number: "s0! s1!" for (2, "s", "!").
std::string numbered(
    size_t count, std::string_view word, std::string_view mark);

}  // namespace weft
