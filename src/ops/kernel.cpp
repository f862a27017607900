// SPDX-License-Identifier: Apache-2.0
#include "ops/kernel.h"

#include "base/text.h"
#include "ops/call.h"
#include "ops/iterator.h"

#include <algorithm>
#include <utility>

namespace weft {

TensorType undefined_type() { return make_type(DType::F32, {0}); }

bool is_undefined(const TensorType& type) { return type.sizes == Dims{0}; }

bool is_row_major(const TensorType& type) { return is_contiguous(type); }

bool is_dense(const TensorType& type) {
  if (std::find(type.sizes.begin(), type.sizes.end(), 0) != type.sizes.end()) {
    return true;
  }
  const Dims strides = strides_of(type);
  const std::vector<size_t> order = memory_order(strides);
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    if (type.sizes[dim] == 1) {
      continue;
    }
    if (strides[dim] != expected) {
      return false;
    }
    expected *= type.sizes[dim];
  }
  return true;
}

TensorType in_format_of(const TensorType& model, DType dtype, Dims sizes) {
  return is_channels_last(model) ? channels_last(dtype, std::move(sizes))
                                 : make_type(dtype, std::move(sizes));
}

TensorType in_contiguous_format_of(const TensorType& model) {
  return is_row_major(model) ? make_type(model.dtype, model.sizes)
                             : in_format_of(model, model.dtype, model.sizes);
}

TensorType like(const TensorType& model, DType dtype) {
  if (is_dense(model)) {
    return {dtype, model.sizes, model.strides};
  }
  return iterated_type(dtype, {model});
}

TensorType like(const TensorType& model) { return like(model, model.dtype); }

int64_t dense_bytes(const TensorType& type) {
  return element_count(type) * element_bytes(type.dtype);
}

int64_t copy_bytes(const TensorType& type) {
  return is_row_major(type) ? 0 : dense_bytes(type);
}

int64_t copy_bytes(
    const Function& function, const Node& node, size_t position) {
  return value_arg(node, position) == ValueId::None
             ? 0
             : copy_bytes(type_arg(function, node, position));
}

DType accumulate_type(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype;
}

CountFunction per_element(int64_t operations) {
  return [operations](const Function& function, const Node& node) {
    int64_t largest = 0;
    for_each_operand(node, [&](ValueId id) {
      largest = std::max(largest, element_count(function[id].type));
    });
    for (const ValueId id : node.results) {
      largest = std::max(largest, element_count(function[id].type));
    }
    return operations * largest;
  };
}

int64_t count_result(const Function& function, const Node& node) {
  return element_count(result_type(function, node));
}

int64_t round_up(int64_t count, int64_t block) {
  return (count + block - 1) / block * block;
}

std::string plane(const TensorType& type, size_t spatial) {
  return type.sizes.size() == spatial + 2 ? "n c" : "c";
}

bool flag_at(const Node& node, size_t position, size_t i) {
  const auto& flags = std::get<Arg::List>(node.args.at(position).data);
  return std::get<bool>(flags.at(i).data);
}

int64_t dim_at(const Node& node, size_t position, size_t i, int64_t fallback) {
  const Dims dims = dims_arg(node, position);
  if (dims.empty()) {
    return fallback;
  }
  return dims.size() == 1 ? dims[0] : dims.at(i);
}

Rule rule_from_terms(
    const std::vector<std::string>& operands,
    const std::vector<std::string>& results,
    const Function& function,
    const Node& node) {
  return rule_from_text(
      cat(join(operands, ", "), " -> ", join(results, ", ")), function, node);
}

std::string numbered(
    size_t count, std::string_view word, std::string_view mark) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += cat(i == 0 ? "" : " ", word, i, mark);
  }
  return text;
}

std::vector<TensorType> copied_types(
    const Function& function, const Node& node) {
  const TensorType& self = operand_type(function, node, 0);
  const DType dtype = dtype_option(node, "dtype").value_or(self.dtype);
  const Arg* format = find_option(node, "memory_format");
  if (format == nullptr || std::get<Symbol>(format->data).text == "preserve") {
    return {like(self, dtype)};
  }
  if (std::get<Symbol>(format->data).text == "contiguous") {
    return {make_type(dtype, self.sizes)};
  }
  return {};
}

}  // namespace weft
