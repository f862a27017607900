# SPDX-License-Identifier: Apache-2.0
"""Graph networks of PyG on a random graph."""

import functools

import torch
from torch import nn

NODES, EDGES, FEATURES, CLASSES = 24, 80, 8, 4


class NodeLabels(nn.Module):
    """Cross-entropy of every node's label."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, edges, labels):
        return nn.functional.cross_entropy(self.model(features, edges), labels)


class GraphLabels(nn.Module):
    """Node features pooled to one label a graph."""

    def __init__(self, model, pool):
        super().__init__()
        self.model = model
        self.pool = pool
        self.head = nn.Linear(CLASSES, CLASSES)

    def forward(self, features, edges, graph, labels):
        pooled = self.pool(self.model(features, edges), graph, size=4)
        return nn.functional.cross_entropy(self.head(pooled), labels)


def graph():
    return torch.randn(NODES, FEATURES), torch.randint(NODES, (2, EDGES))


def node_labels(name, **options):
    from torch_geometric import nn as layers

    model = getattr(layers, name)(FEATURES, 16, num_layers=2, out_channels=CLASSES, **options)
    return NodeLabels(model), (*graph(), torch.randint(CLASSES, (NODES,)))


class TwoLayers(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, features, edges):
        return self.second(self.first(features, edges).relu(), edges)


def convolution(name, heads=1, **options):
    from torch_geometric import nn as layers

    kind = getattr(layers, name)
    more = {"heads": heads} if heads > 1 else {}
    model = TwoLayers(kind(FEATURES, 16, **options, **more), kind(16 * heads, CLASSES, **options))
    return NodeLabels(model), (*graph(), torch.randint(CLASSES, (NODES,)))


def graph_labels(pool):
    from torch_geometric import nn as layers

    model = layers.GIN(FEATURES, 16, num_layers=2, out_channels=CLASSES)
    members = torch.arange(4).repeat_interleave(NODES // 4)
    return GraphLabels(model, getattr(layers, pool)), (*graph(), members, torch.randint(CLASSES, (4,)))


MODELS = {
    "GCN": functools.partial(node_labels, "GCN"),
    "GraphSAGE": functools.partial(node_labels, "GraphSAGE"),
    "GIN": functools.partial(node_labels, "GIN"),
    "GAT": functools.partial(node_labels, "GAT"),
    "EdgeCNN": functools.partial(node_labels, "EdgeCNN"),
    "GATv2Conv": functools.partial(convolution, "GATv2Conv", heads=2),
    "TransformerConv": functools.partial(convolution, "TransformerConv", heads=2),
    "ChebConv": functools.partial(convolution, "ChebConv", K=2),
    "TAGConv": functools.partial(convolution, "TAGConv"),
    "ARMAConv": functools.partial(convolution, "ARMAConv"),
    "GraphConv": functools.partial(convolution, "GraphConv"),
    "LEConv": functools.partial(convolution, "LEConv"),
    "GIN_mean_pool": functools.partial(graph_labels, "global_mean_pool"),
    "GIN_max_pool": functools.partial(graph_labels, "global_max_pool"),
}
