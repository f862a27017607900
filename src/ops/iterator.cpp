// SPDX-License-Identifier: Apache-2.0
#include "ops/iterator.h"

#include "ops/kernel.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Kinds of numbers; a higher one wins whatever its width.
int kind_of(DType dtype) {
  if (dtype == DType::Bool) {
    return 0;
  }
  return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : 1;
}

bool is_signed(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I16 ||
         dtype == DType::I8;
}

DType promote_integers(DType a, DType b) {
  if (is_signed(a) != is_signed(b)) {
    DType plain = is_signed(a) ? b : a;
    DType with_sign = is_signed(a) ? a : b;
    // The signed one must also hold the other's values.
    while (element_bytes(with_sign) <= element_bytes(plain) &&
           with_sign != DType::I64) {
      with_sign = with_sign == DType::I8    ? DType::I16
                  : with_sign == DType::I16 ? DType::I32
                                            : DType::I64;
    }
    return with_sign;
  }
  return element_bytes(a) >= element_bytes(b) ? a : b;
}

DType promote_complex(DType a, DType b) {
  auto needs_double = [](DType dtype) {
    return dtype == DType::C128 || dtype == DType::F64;
  };
  return needs_double(a) || needs_double(b) ? DType::C128 : DType::C64;
}

// An operand's strides as they are read for the broadcast sizes: 0 along the
// dims in which it is broadcast.
Dims broadcast_strides(const TensorType& operand, const Dims& sizes) {
  Dims strides(sizes.size(), 0);
  Dims own = strides_of(operand);
  size_t added = sizes.size() - own.size();
  for (size_t i = 0; i < own.size(); ++i) {
    if (operand.sizes[i] == sizes[added + i]) {
      strides[added + i] = own[i];
    }
  }
  return strides;
}

Dims broadcast_sizes(const std::vector<TensorType>& operands) {
  Dims sizes;
  for (const TensorType& operand : operands) {
    if (operand.sizes.size() > sizes.size()) {
      sizes.insert(
          sizes.begin(), operand.sizes.size() - sizes.size(), int64_t{1});
    }
    size_t added = sizes.size() - operand.sizes.size();
    for (size_t i = 0; i < operand.sizes.size(); ++i) {
      if (operand.sizes[i] != 1) {
        sizes[added + i] = operand.sizes[i];
      }
    }
  }
  return sizes;
}

// Whether dim a must be faster (-1) or slower (1) than dim b; the first operand
// that can tell decides.
int compare_dims(
    const std::vector<Dims>& strides, const Dims& sizes, size_t a, size_t b) {
  for (const Dims& operand : strides) {
    if (operand[a] == 0 || operand[b] == 0) {
      continue;
    }
    if (operand[a] != operand[b]) {
      return operand[a] < operand[b] ? -1 : 1;
    }
    if (sizes[a] > sizes[b]) {
      return 1;
    }
  }
  return 0;
}

// Dims from the fastest to the slowest, sorted as TensorIterator does: not
// every pair of dims can be told apart, so the way of sorting matters.
std::vector<size_t> iteration_order(
    const std::vector<Dims>& strides, const Dims& sizes) {
  std::vector<size_t> order;
  for (size_t i = sizes.size(); i-- > 0;) {
    order.push_back(i);
  }
  for (size_t i = 1; i < order.size(); ++i) {
    size_t moving = i;
    for (size_t before = i; before-- > 0;) {
      int comparison =
          compare_dims(strides, sizes, order[before], order[moving]);
      if (comparison > 0) {
        std::swap(order[before], order[moving]);
        moving = before;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  return order;
}

std::vector<TensorType> operand_types(
    const Function& function, const Node& node) {
  std::vector<TensorType> types;
  for (ValueId id : operands(node)) {
    types.push_back(function[id].type);
  }
  return types;
}

std::optional<DType> number_type(const Arg& arg) {
  if (std::holds_alternative<bool>(arg.data)) {
    return DType::Bool;
  }
  if (std::holds_alternative<int64_t>(arg.data)) {
    return DType::I64;
  }
  if (std::holds_alternative<double>(arg.data)) {
    return DType::F32;
  }
  return std::nullopt;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) {
    return a;
  }
  int kind_a = kind_of(a);
  int kind_b = kind_of(b);
  if (kind_a == 3 || kind_b == 3) {
    return promote_complex(a, b);
  }
  if (kind_a != kind_b) {
    return kind_a > kind_b ? a : b;
  }
  if (kind_a == 1) {
    return promote_integers(a, b);
  }
  if (element_bytes(a) == element_bytes(b)) {
    return DType::F32;
  }
  return element_bytes(a) > element_bytes(b) ? a : b;
}

DType promoted_type(const Function& function, const Node& node) {
  // With dims, without dims, numbers: the later ones count by kind only.
  std::optional<DType> groups[3];
  auto add = [&](size_t group, DType dtype) {
    groups[group] = groups[group] ? promote(*groups[group], dtype) : dtype;
  };
  for (const TensorType& type : operand_types(function, node)) {
    add(type.sizes.empty() ? 1 : 0, type.dtype);
  }
  for (const Arg& arg : node.args) {
    if (std::optional<DType> dtype = number_type(arg)) {
      add(2, *dtype);
    }
  }
  std::optional<DType> result;
  for (const std::optional<DType>& group : groups) {
    if (group && (!result || kind_of(*group) > kind_of(*result))) {
      result = result ? promote(*result, *group) : *group;
    }
  }
  return result.value_or(DType::F32);
}

TensorType iterated_type(DType dtype, const std::vector<TensorType>& operands) {
  Dims sizes = broadcast_sizes(operands);
  std::vector<Dims> strides;
  bool same = true;
  bool row_major = true;
  for (const TensorType& operand : operands) {
    strides.push_back(broadcast_strides(operand, sizes));
    same = same && operand.sizes == sizes &&
           operand.strides == operands[0].strides && is_dense(operand);
    row_major = row_major && operand.sizes == sizes && is_row_major(operand);
  }
  if (row_major || operands.empty()) {
    return make_type(dtype, std::move(sizes));
  }
  if (same) {
    return make_type(dtype, std::move(sizes), strides[0]);
  }
  Dims result(sizes.size());
  int64_t stride = 1;
  for (size_t dim : iteration_order(strides, sizes)) {
    result[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
  return make_type(dtype, std::move(sizes), std::move(result));
}

TypesFunction iterated(std::optional<DType> dtype) {
  return [dtype](const Function& function, const Node& node) {
    return std::vector<TensorType>{iterated_type(
        dtype ? *dtype : promoted_type(function, node),
        operand_types(function, node))};
  };
}

TypesFunction iterated_from_last() {
  return [](const Function& function, const Node& node) {
    std::vector<TensorType> operands = operand_types(function, node);
    std::reverse(operands.begin(), operands.end());
    return std::vector<TensorType>{
        iterated_type(promoted_type(function, node), operands)};
  };
}

TypesFunction iterated_real() {
  return [](const Function& function, const Node& node) {
    const DType dtype = promoted_type(function, node);
    const bool integer = !is_floating(dtype) && !is_complex(dtype);
    return std::vector<TensorType>{iterated_type(
        integer ? DType::F32 : dtype, operand_types(function, node))};
  };
}

TypesFunction iterated_as_first(bool real) {
  return [real](const Function& function, const Node& node) {
    DType dtype = operand_types(function, node).at(0).dtype;
    bool integer = !is_floating(dtype) && !is_complex(dtype);
    return std::vector<TensorType>{iterated_type(
        real && integer ? DType::F32 : dtype, operand_types(function, node))};
  };
}

DType real_type(DType dtype) {
  return dtype == DType::C64    ? DType::F32
         : dtype == DType::C128 ? DType::F64
                                : dtype;
}

}  // namespace weft
