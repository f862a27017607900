# SPDX-License-Identifier: Apache-2.0
"""Random programs of views and writes in place give eager PyTorch's bits."""

import weft
from random_programs import build
from replaying import assert_bit_equal, eager_step, step_inputs
from weft import _weft


def eager(seed):
    """Loss, gradients and buffers, or None for a program that PyTorch refuses."""
    model, batch = build(seed)
    try:
        loss, gradients, buffers = eager_step(model, batch)
    except RuntimeError:
        return None
    return loss, gradients, {name: buffer.clone() for name, buffer in buffers.items()}, model.done


def captured(seed):
    model, batch = build(seed)
    graph = weft.capture(model, batch)
    graph.verify()
    inputs = step_inputs(graph, model, batch)
    values = _weft.evaluate(graph, "step", inputs)
    return dict(zip(graph.outputs("step"), values, strict=True))


def check(seed):
    expected = eager(seed)
    if expected is None:
        return False
    loss, gradients, buffers, program = expected
    said = f"seed {seed}:\n" + "\n".join(program) + "\n"
    ours = captured(seed)
    assert_bit_equal(said + "loss", ours[("loss", "")], loss)
    for name, gradient in gradients.items():
        assert_bit_equal(said + name, ours[("gradient", name)], gradient)
    for name, buffer in buffers.items():
        if ("buffer", name) in ours:
            assert_bit_equal(said + name, ours[("buffer", name)], buffer)
    return True


def test_random_programs(campaign_size):
    first, last = 0, campaign_size(120, 5000)
    ran = sum(check(seed) for seed in range(first, last))
    assert ran > (last - first) / 2
