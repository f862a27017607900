// SPDX-License-Identifier: Apache-2.0
// The small words of an exported program: sizes, types, trees of arguments.
#include "aten/types.h"
#include "base/error.h"
#include "base/json.h"
#include "capture/export_archive.h"
#include "graph/countable.h"

#include <torch/csrc/utils/generated_serialization_types.h>

#include <algorithm>

namespace weft {
namespace {

namespace schema = torch::_export;

using Json = nlohmann::json;

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

Json json_or_null(const std::string& text) {
  try {
    return parse_json<Json>(text);
  } catch (const UserError&) {
    return {};
  }
}

// The names of a node's children. A dict has its keys in its context; the
// children of everything else are numbered.
std::vector<std::string> child_names(const Json& node, size_t count) {
  std::vector<std::string> names;
  const Json& context = node.at("context");
  if (context.is_string()) {
    const Json keys = json_or_null(context.get<std::string>());
    if (keys.is_array() && keys.size() == count) {
      for (const Json& key : keys) {
        names.push_back(key.is_string() ? key.get<std::string>() : key.dump());
      }
      return names;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    names.push_back(cat(i));
  }
  return names;
}

void add_leaves(
    const Json& node,
    const std::string& path,
    std::vector<std::string>& leaves) {
  if (node.at("type").is_null()) {
    leaves.push_back(path);
    return;
  }
  const Json& children = node.at("children_spec");
  const std::vector<std::string> names = child_names(node, children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    add_leaves(children[i], joined(path, names[i]), leaves);
  }
}

// The text is [version, root]; null when it is not.
Json root_of(const std::string& tree) {
  const Json parsed = json_or_null(tree);
  return parsed.is_array() && parsed.size() == 2 ? parsed[1] : Json();
}

bool is_tree(const Json& node) {
  if (!node.is_object() || !node.contains("type") ||
      !node.contains("context") || !node.contains("children_spec")) {
    return false;
  }
  const Json& children = node["children_spec"];
  return children.is_array() &&
         std::all_of(children.begin(), children.end(), is_tree);
}

// Whether the last element, too, lies at bytes that 64 bits count.
bool reaches_countable(DType dtype, const Dims& sizes, const Dims& strides) {
  int64_t bytes = element_bytes(dtype);
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t reach = 0;
    if (strides[dim] < 0 ||
        __builtin_mul_overflow(
            std::max<int64_t>(sizes[dim], 1), strides[dim], &reach) ||
        __builtin_mul_overflow(reach, element_bytes(dtype), &reach) ||
        __builtin_add_overflow(bytes, reach, &bytes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

int64_t size_of(const schema::SymInt& size) {
  if (size.tag() == schema::SymInt::Tag::AS_INT) {
    return size.get_as_int();
  }
  const schema::SymExpr& expression = size.get_as_expr();
  const auto& hint = expression.get_hint();
  WEFT_CHECK_USER(
      hint && hint->tag() == schema::SymExprHint::Tag::AS_INT,
      "[capture] a size depends on data, and a step that is planned ahead "
      "needs "
      "sizes that do not: ",
      expression.get_expr_str());
  return hint->get_as_int();
}

at::ScalarType exported_scalar_type(int64_t serialized) {
  switch (static_cast<schema::ScalarType>(serialized)) {
    case schema::ScalarType::BYTE:
      return at::kByte;
    case schema::ScalarType::CHAR:
      return at::kChar;
    case schema::ScalarType::SHORT:
      return at::kShort;
    case schema::ScalarType::INT:
      return at::kInt;
    case schema::ScalarType::LONG:
      return at::kLong;
    case schema::ScalarType::HALF:
      return at::kHalf;
    case schema::ScalarType::FLOAT:
      return at::kFloat;
    case schema::ScalarType::DOUBLE:
      return at::kDouble;
    case schema::ScalarType::COMPLEXFLOAT:
      return at::kComplexFloat;
    case schema::ScalarType::COMPLEXDOUBLE:
      return at::kComplexDouble;
    case schema::ScalarType::BOOL:
      return at::kBool;
    case schema::ScalarType::BFLOAT16:
      return at::kBFloat16;
    case schema::ScalarType::UINT16:
      return at::kUInt16;
    case schema::ScalarType::UINT32:
      return at::kUInt32;
    case schema::ScalarType::UINT64:
      return at::kUInt64;
    case schema::ScalarType::FLOAT8E4M3FN:
      return at::kFloat8_e4m3fn;
    case schema::ScalarType::FLOAT8E5M2:
      return at::kFloat8_e5m2;
    default:
      throw UserError(
          cat("[capture] not supported: element type ",
              serialized,
              " of torch.export's schema"));
  }
}

TensorType type_of(const schema::TensorMeta& meta) {
  WEFT_CHECK_USER(
      meta.get_layout() == schema::Layout::Strided,
      "[capture] not supported: a sparse tensor in an exported program");
  const auto numbers = [](const std::vector<schema::SymInt>& sizes) {
    Dims dims;
    for (const schema::SymInt& size : sizes) {
      dims.push_back(size_of(size));
    }
    return dims;
  };
  const DType dtype =
      dtype_of(exported_scalar_type(static_cast<int64_t>(meta.get_dtype())));
  const Dims sizes = numbers(meta.get_sizes());
  const Dims strides = numbers(meta.get_strides());
  WEFT_CHECK_USER(
      sizes.size() == strides.size() && is_countable(dtype, sizes) &&
          reaches_countable(dtype, sizes, strides),
      "[capture] damaged program: the sizes and strides of a tensor of ",
      sizes.size(),
      " dims are not those of one");
  return make_type(dtype, sizes, strides);
}

std::vector<std::string> input_paths(const std::string& tree) {
  std::vector<std::string> leaves;
  const Json root = root_of(tree);
  if (is_tree(root)) {
    for (const Json& half : root.at("children_spec")) {
      add_leaves(half, "", leaves);
    }
  }
  return leaves;
}

std::vector<std::string> output_paths(const std::string& tree) {
  std::vector<std::string> leaves;
  const Json root = root_of(tree);
  if (is_tree(root)) {
    add_leaves(root, "", leaves);
  }
  return leaves;
}

}  // namespace weft
