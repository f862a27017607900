# SPDX-License-Identifier: Apache-2.0
"""Holds a captured step against eager PyTorch, bit for bit."""

import torch
import weft
from weft import _weft
from weft.batch import batch_arguments, batch_tensors
from weft.find_loss import find_loss


def eager_step(model, batch):
    """Loss and gradients of the plain step, and the buffers after it."""
    arguments, keywords = batch_arguments(batch)
    model.zero_grad(set_to_none=True)
    loss = find_loss(model(*arguments, **keywords))
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return loss.detach(), gradients, dict(model.named_buffers())


def step_inputs(graph, model, batch):
    """The tensors of the live model and batch, in the order of the graph's inputs."""
    tensors = dict(model.named_parameters(remove_duplicate=False))
    tensors.update(model.named_buffers(remove_duplicate=False))
    tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    named = dict(batch_tensors(batch))
    unnamed = {}
    if any(key.startswith("unnamed.") for _, key in graph.inputs("step")):
        unnamed = dict(zip(graph.outputs("init"), replay_init(graph), strict=True))
    inputs = []
    for kind, key in graph.inputs("step"):
        if kind == "batch":
            inputs.append(named[key])
        elif kind == "constant":
            inputs.append(_weft.constant(graph, key))
        elif key in tensors:
            inputs.append(tensors[key])
        else:
            inputs.append(unnamed.get(("buffer", key)))
    return inputs


def replay_init(graph):
    inputs = [_weft.constant(graph, key) for _, key in graph.inputs("init")]
    return _weft.replay(graph, "init", inputs)


def assert_bit_equal(what, ours, theirs):
    assert ours is not None, f"{what} is missing"
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, what
    same = torch.equal(ours, theirs) or torch.equal(torch.nan_to_num(ours), torch.nan_to_num(theirs))
    assert same, f"{what} differs by {(ours.double() - theirs.double()).abs().max()}"


def check(function, **options):
    """Captures without values, replays on values, compares with eager."""
    captured = weft.capture_function(function, options)
    graph = weft.Graph.parse(str(captured.graph))
    assert str(graph) == str(captured.graph)
    check_graph(graph, function, **options)
    return captured


def check_graph(graph, function, **options):
    """The graph, replayed on values, gives what eager PyTorch gives."""
    graph.verify()
    torch.manual_seed(0)
    returned = function(**options)
    model, batch = returned[0], returned[1]
    inputs = step_inputs(graph, model, batch)
    torch.manual_seed(1)
    ours = dict(zip(graph.outputs("step"), _weft.replay(graph, "step", inputs), strict=True))
    torch.manual_seed(1)
    loss, gradients, buffers = eager_step(model, batch)

    assert_bit_equal("loss", ours[("loss", "")].reshape(loss.shape), loss)
    assert {key for kind, key in ours if kind == "gradient"} == set(gradients)
    for name, gradient in gradients.items():
        assert_bit_equal(f"gradient of {name}", ours[("gradient", name)], gradient)
    for (kind, name), value in ours.items():
        if kind == "buffer" and name in buffers:
            assert_bit_equal(f"buffer {name}", value, buffers[name])


def check_init(function, **options):
    """The recorded initialisation gives the parameters of the same seed."""
    captured = weft.capture_function(function, options)
    graph = captured.graph
    torch.manual_seed(7)
    model = function(**options)[0]
    torch.manual_seed(7)
    ours = dict(zip(graph.outputs("init"), replay_init(graph), strict=True))
    for name, parameter in model.named_parameters():
        assert_bit_equal(name, ours[("parameter", name)], parameter.detach())
    for name, buffer in model.named_buffers():
        assert_bit_equal(name, ours[("buffer", name)], buffer)
