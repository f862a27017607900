// SPDX-License-Identifier: Apache-2.0
// Reading the arguments of a node by their position in the ATen schema.
// Trailing arguments that equal the schema's default are not there, so every
// reader of an optional one takes the default.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// A node that nothing reads and that must stay: the step is right only while
// what it looks at is what it was.
bool is_guard(const Node& node);

// nullptr when it is left out or `none`.
const Arg* find_arg(const Node& node, size_t position);

// Throw InternalError when the argument is there but of another type. An
// integer is also a number.
int64_t int_arg(const Node& node, size_t position, int64_t fallback);
double number_arg(const Node& node, size_t position, double fallback);
bool bool_arg(const Node& node, size_t position, bool fallback);
// A list of integers; one integer counts as a list of one.
Dims dims_arg(const Node& node, size_t position, Dims fallback = {});
// ValueId::None when it is left out or `none`.
ValueId value_arg(const Node& node, size_t position);

// The same for keyword arguments.
int64_t int_option(const Node& node, std::string_view name, int64_t fallback);
double number_option(const Node& node, std::string_view name, double fallback);
bool bool_option(const Node& node, std::string_view name, bool fallback);
std::optional<DType> dtype_option(const Node& node, std::string_view name);

// The type of the argument at a position, which must be a value.
const TensorType& type_arg(
    const Function& function, const Node& node, size_t position);
// The type of the i-th operand in the order of weft::operands(node).
const TensorType& operand_type(
    const Function& function, const Node& node, size_t i);
// The type of result i, which must be there.
const TensorType& result_type(
    const Function& function, const Node& node, size_t i = 0);

// -1 becomes ndim - 1. A scalar counts as having one dim, as in ATen.
int64_t wrap_dim(int64_t dim, size_t ndim);
// Wrapped and ascending; `empty_means_all` for reductions.
Dims wrap_dims(const Dims& dims, size_t ndim, bool empty_means_all);

Arg to_arg(const Dims& dims);
// Sets the argument, which may be the first one left out but not a later one.
void set_arg(Node& node, size_t position, Arg value);
// Writes out the arguments left out up to `defaults.size()`, so that a later
// one can be set.
void fill_args(Node& node, const Arg::List& defaults);
void set_option(Node& node, std::string_view name, Arg value);

// "d0 d1 d2": the rule text of `count` dims, each a factor of its own; "()" for
// none.
std::string dim_names(size_t count, std::string_view prefix = "d");

}  // namespace weft
