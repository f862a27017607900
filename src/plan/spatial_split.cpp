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
  // Values of forward from which an image is made later.
  std::vector<bool> becomes_image(step.values.size(), false);
  for (size_t n = step.nodes.size(); n-- > 0;) {
    const Node& node = step.nodes[n];
    const bool is_before_image =
        node.phase == Phase::Forward &&
        std::any_of(
            node.results.begin(), node.results.end(), [&](ValueId result) {
              return becomes_image[index(result)] ||
                     is_image(step[result].type, image);
            });
    for (const ValueId read : operands(node)) {
      becomes_image[index(read)] =
          becomes_image[index(read)] || is_before_image;
    }
  }
  std::vector<ValueId> out;
  for (const Node& node : step.nodes) {
    const std::vector<ValueId> read = operands(node);
    const ValueId made = node.results.front();
    const Dims& sizes = step[made].type.sizes;
    const bool is_end =
        node.phase == Phase::Forward && sizes.size() > 1 &&
        sizes.front() == image.sizes.front() && !becomes_image[index(made)] &&
        !is_image(step[made].type, image) &&
        std::any_of(read.begin(), read.end(), [&](ValueId value) {
          return is_image(step[value].type, image);
        });
    if (is_end) {
      out.push_back(made);
    }
  }
  return out;
}

}  // namespace weft
