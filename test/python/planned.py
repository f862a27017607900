# SPDX-License-Identifier: Apache-2.0
"""Steps under plans, all ranks in this process, held against eager PyTorch."""

import weft
from evaluating import first_state
from replaying import eager_step
from weft import _weft
from weft.capture import batch_tensors


class Planned:
    """The captured step of what `build()` returns, and what eager PyTorch gives for it."""

    def __init__(self, build):
        model, batch, *optimizer = build()
        self.optimizer = optimizer[0] if optimizer else None
        self.graph = weft.capture(model, batch)
        known = {("batch", key): value for key, value in batch_tensors(batch)}
        known |= {("parameter", n): p.detach().clone() for n, p in model.named_parameters(remove_duplicate=False)}
        known |= {("buffer", n): b.detach().clone() for n, b in model.named_buffers()}
        self.inputs = []
        for kind, key in self.graph.inputs("step"):
            if kind == "constant":
                self.inputs.append(_weft.constant(self.graph, key))
            elif kind == "state":
                self.inputs.append(first_state(self.graph, key, self.optimizer))
            else:
                self.inputs.append(known[(kind, key)])
        self.loss, self.gradients, self.buffers = eager_step(model, batch)

    def on_one_rank(self):
        return self._named(_weft.evaluate(self.graph, "step", self.inputs))

    def under(self, words):
        """The outputs by kind and key under a plan in words."""
        return self._named(_weft.run_lockstep(self.graph, _weft.expand(self.graph, words), self.inputs))

    def _named(self, values):
        return dict(zip(self.graph.outputs("step"), values, strict=True))

    def difference(self, outputs):
        """The largest relative differences from eager PyTorch of the loss and of a gradient."""
        loss = (outputs[("loss", "")].reshape(self.loss.shape) - self.loss).abs().item() / self.loss.abs().item()
        return loss, gradient_difference(
            {key: value for (kind, key), value in outputs.items() if kind == "gradient"}, self.gradients
        )


def gradient_difference(ours, theirs):
    assert set(ours) == set(theirs)
    largest = max(gradient.abs().max().item() for gradient in theirs.values())
    worst = 0.0
    for name, gradient in theirs.items():
        # One that is 0 but for rounding is measured by the others.
        scale = max(gradient.abs().max().item(), 1e-3 * largest)
        worst = max(worst, (ours[name] - gradient).abs().max().item() / scale)
    return worst
