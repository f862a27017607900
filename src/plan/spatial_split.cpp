// SPDX-License-Identifier: Apache-2.0
#include "plan/spatial_split.h"

#include <algorithm>

namespace weft {
namespace {

bool is_image(const TensorType& type, const TensorType& image) {
  return type.sizes.size() == image.sizes.size() &&
         type.sizes.front() == image.sizes.front() &&
         std::any_of(
             type.sizes.begin() + kFirstSpatialDim,
             type.sizes.end(),
             [](int64_t size) { return size > 1; });
}

// Values of forward of which an image is made, or that are multiplied with
// parameters: what is made of them, going backwards.
struct Uses {
  std::vector<bool> image;
  std::vector<bool> parameter;
};

// Parameters, and what is made of nothing else.
std::vector<bool> parameters_of(const Function& step) {
  std::vector<bool> out(step.values.size(), false);
  for (const Input& input : step.inputs) {
    out[index(input.value)] = input.kind == InputKind::Parameter;
  }
  for (const Node& node : step.nodes) {
    const std::vector<ValueId> read = operands(node);
    const bool is_parameter =
        !read.empty() && std::all_of(read.begin(), read.end(), [&](ValueId id) {
          return out[index(id)];
        });
    for (const ValueId result : node.results) {
      out[index(result)] = is_parameter;
    }
  }
  return out;
}

Uses uses_of(const Function& step, const TensorType& image) {
  const std::vector<bool> parameters = parameters_of(step);
  Uses uses = {
      std::vector<bool>(step.values.size(), false),
      std::vector<bool>(step.values.size(), false)};
  for (size_t n = step.nodes.size(); n-- > 0;) {
    const Node& node = step.nodes[n];
    if (node.phase != Phase::Forward) {
      continue;
    }
    const std::vector<ValueId> read = operands(node);
    bool in_image = false;
    bool in_parameter = std::any_of(read.begin(), read.end(), [&](ValueId id) {
      return parameters[index(id)];
    });
    for (const ValueId result : node.results) {
      in_image = in_image || uses.image[index(result)] ||
                 is_image(step[result].type, image);
      in_parameter = in_parameter || uses.parameter[index(result)];
    }
    for (const ValueId id : read) {
      uses.image[index(id)] = uses.image[index(id)] || in_image;
      uses.parameter[index(id)] = uses.parameter[index(id)] || in_parameter;
    }
  }
  return uses;
}

}  // namespace

size_t first_spatial_dim(const TensorType& input, const TensorType& image) {
  const Dims& sizes = image.sizes;
  if (input.sizes.size() == sizes.size()) {
    return kFirstSpatialDim;
  }
  const bool has_labels = input.sizes.size() + 1 == sizes.size() &&
                          input.sizes.front() == sizes.front() &&
                          std::equal(
                              input.sizes.begin() + 1,
                              input.sizes.end(),
                              sizes.begin() + kFirstSpatialDim);
  return has_labels ? kFirstSpatialDim - 1 : 0;
}

std::vector<ValueId> heads(const Function& step, const TensorType& image) {
  const Uses uses = uses_of(step, image);
  std::vector<ValueId> out;
  for (const Node& node : step.nodes) {
    const std::vector<ValueId> read = operands(node);
    const ValueId made = node.results.front();
    const Dims& sizes = step[made].type.sizes;
    const bool is_end =
        node.phase == Phase::Forward && sizes.size() > 1 &&
        sizes.front() == image.sizes.front() && !uses.image[index(made)] &&
        uses.parameter[index(made)] && !is_image(step[made].type, image) &&
        std::any_of(read.begin(), read.end(), [&](ValueId value) {
          return is_image(step[value].type, image);
        });
    if (is_end) {
      out.push_back(made);
    }
  }
  return out;
}

std::vector<ValueId> spread_gradients(
    const Function& step, const TensorType& image) {
  std::vector<ValueId> out;
  for (const Node& node : step.nodes) {
    const std::vector<ValueId> read = operands(node);
    const TensorType& made = step[node.results.front()].type;
    if (node.phase != Phase::Backward || read.size() != 1 ||
        !is_image(made, image)) {
      continue;
    }
    const TensorType& type = step[read.front()].type;
    if (!type.sizes.empty() && type.sizes.front() == image.sizes.front() &&
        element_count(type) < element_count(made) && !is_image(type, image)) {
      out.push_back(read.front());
    }
  }
  return out;
}

}  // namespace weft
