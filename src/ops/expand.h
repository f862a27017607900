// SPDX-License-Identifier: Apache-2.0
// Expansions of the op table (see OpDef::expand): each op as nodes in which
// maxima and sums along the dim in question stand alone, so that ranks can join
// them.
#pragma once

#include "ops/node_builder.h"

#include <vector>

namespace weft {

using Expanded = std::vector<ValueId>;

Expanded expand_softmax(NodeBuilder& builder, const Node& node);
Expanded expand_softmax_backward(NodeBuilder& builder, const Node& node);
Expanded expand_safe_softmax(NodeBuilder& builder, const Node& node);
Expanded expand_log_softmax(NodeBuilder& builder, const Node& node);
Expanded expand_log_softmax_backward(NodeBuilder& builder, const Node& node);

Expanded expand_layer_norm(NodeBuilder& builder, const Node& node);
Expanded expand_layer_norm_backward(NodeBuilder& builder, const Node& node);
Expanded expand_rms_norm(NodeBuilder& builder, const Node& node);
Expanded expand_rms_norm_backward(NodeBuilder& builder, const Node& node);
Expanded expand_group_norm(NodeBuilder& builder, const Node& node);
Expanded expand_group_norm_backward(NodeBuilder& builder, const Node& node);

Expanded expand_variance(NodeBuilder& builder, const Node& node);
Expanded expand_logsumexp(NodeBuilder& builder, const Node& node);
Expanded expand_aminmax(NodeBuilder& builder, const Node& node);
Expanded expand_vector_norm(NodeBuilder& builder, const Node& node);

// Those with a bias.
Expanded expand_convolution(NodeBuilder& builder, const Node& node);
Expanded expand_convolution_backward(NodeBuilder& builder, const Node& node);

// Flash attention on the CPU: t, and s under a causal mask, become free.
Expanded expand_attention(NodeBuilder& builder, const Node& node);
Expanded expand_attention_backward(NodeBuilder& builder, const Node& node);

}  // namespace weft
