// SPDX-License-Identifier: Apache-2.0
#include "ops/call.h"

#include "base/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

const Arg* present(const Arg* arg) {
  return arg == nullptr || std::holds_alternative<None>(arg->data) ? nullptr
                                                                   : arg;
}

template <typename T>
const T& as(const Node& node, const Arg& arg) {
  const T* value = std::get_if<T>(&arg.data);
  WEFT_CHECK(value != nullptr, "argument of another type in ", node.op);
  return *value;
}

double as_number(const Node& node, const Arg& arg) {
  if (const auto* integer = std::get_if<int64_t>(&arg.data)) {
    return static_cast<double>(*integer);
  }
  if (const auto* flag = std::get_if<bool>(&arg.data)) {
    return *flag ? 1 : 0;
  }
  return as<double>(node, arg);
}

}  // namespace

const Arg* find_arg(const Node& node, size_t position) {
  return position < node.args.size() ? present(&node.args[position]) : nullptr;
}

int64_t int_arg(const Node& node, size_t position, int64_t fallback) {
  const Arg* arg = find_arg(node, position);
  return arg == nullptr ? fallback : as<int64_t>(node, *arg);
}

double number_arg(const Node& node, size_t position, double fallback) {
  const Arg* arg = find_arg(node, position);
  return arg == nullptr ? fallback : as_number(node, *arg);
}

bool bool_arg(const Node& node, size_t position, bool fallback) {
  const Arg* arg = find_arg(node, position);
  return arg == nullptr ? fallback : as<bool>(node, *arg);
}

Dims dims_arg(const Node& node, size_t position, Dims fallback) {
  const Arg* arg = find_arg(node, position);
  if (arg == nullptr) {
    return fallback;
  }
  if (const auto* one = std::get_if<int64_t>(&arg->data)) {
    return {*one};
  }
  Dims dims;
  for (const Arg& item : as<Arg::List>(node, *arg)) {
    dims.push_back(as<int64_t>(node, item));
  }
  return dims;
}

ValueId value_arg(const Node& node, size_t position) {
  const Arg* arg = find_arg(node, position);
  return arg == nullptr ? ValueId::None : as<ValueId>(node, *arg);
}

int64_t int_option(const Node& node, std::string_view name, int64_t fallback) {
  const Arg* arg = present(find_option(node, name));
  return arg == nullptr ? fallback : as<int64_t>(node, *arg);
}

double number_option(const Node& node, std::string_view name, double fallback) {
  const Arg* arg = present(find_option(node, name));
  return arg == nullptr ? fallback : as_number(node, *arg);
}

bool bool_option(const Node& node, std::string_view name, bool fallback) {
  const Arg* arg = present(find_option(node, name));
  return arg == nullptr ? fallback : as<bool>(node, *arg);
}

std::optional<DType> dtype_option(const Node& node, std::string_view name) {
  const Arg* arg = present(find_option(node, name));
  if (arg == nullptr) {
    return std::nullopt;
  }
  return as<DType>(node, *arg);
}

const TensorType& type_arg(
    const Function& function, const Node& node, size_t position) {
  ValueId id = value_arg(node, position);
  WEFT_CHECK(
      id != ValueId::None, node.op, " has no tensor at argument ", position);
  return function[id].type;
}

const TensorType& operand_type(
    const Function& function, const Node& node, size_t i) {
  std::vector<ValueId> ids = operands(node);
  WEFT_CHECK(i < ids.size(), node.op, " has no operand ", i);
  return function[ids[i]].type;
}

const TensorType& result_type(
    const Function& function, const Node& node, size_t i) {
  WEFT_CHECK(i < node.results.size(), node.op, " has no result ", i);
  return function[node.results[i]].type;
}

int64_t wrap_dim(int64_t dim, size_t ndim) {
  auto count = static_cast<int64_t>(std::max<size_t>(ndim, 1));
  int64_t wrapped = dim < 0 ? dim + count : dim;
  WEFT_CHECK(
      wrapped >= 0 && wrapped < count,
      "dim out of range: ",
      dim,
      " of ",
      count);
  return wrapped;
}

Dims wrap_dims(const Dims& dims, size_t ndim, bool empty_means_all) {
  Dims wrapped;
  if (dims.empty() && empty_means_all) {
    wrapped.resize(ndim);
    std::iota(wrapped.begin(), wrapped.end(), 0);
    return wrapped;
  }
  for (int64_t dim : dims) {
    wrapped.push_back(wrap_dim(dim, ndim));
  }
  std::sort(wrapped.begin(), wrapped.end());
  return wrapped;
}

Arg to_arg(const Dims& dims) {
  Arg::List list;
  for (int64_t dim : dims) {
    list.push_back({dim});
  }
  return {std::move(list)};
}

void set_arg(Node& node, size_t position, Arg value) {
  WEFT_CHECK(
      position <= node.args.size(),
      node.op,
      ": arguments before ",
      position,
      " are left out");
  if (position == node.args.size()) {
    node.args.push_back(std::move(value));
  } else {
    node.args[position] = std::move(value);
  }
}

void fill_args(Node& node, const Arg::List& defaults) {
  for (size_t i = node.args.size(); i < defaults.size(); ++i) {
    node.args.push_back(defaults[i]);
  }
}

void set_option(Node& node, std::string_view name, Arg value) {
  for (Option& option : node.options) {
    if (option.name == name) {
      option.value = std::move(value);
      return;
    }
  }
  node.options.push_back({std::string(name), std::move(value)});
}

std::string dim_names(size_t count, std::string_view prefix) {
  if (count == 0) {
    return "()";
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    names.push_back(cat(prefix, i));
  }
  return join(names, " ");
}

}  // namespace weft
