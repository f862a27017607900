# SPDX-License-Identifier: Apache-2.0
"""The Python door to training: a script's own loop, with the steps run by Weft."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
import weakref

import torch

from weft import _weft
from weft._weft import UserError
from weft.capture import check_parts, check_places
from weft.hugging_face import describe
from weft.optimizer import check_hooks, check_options
from weft.step_table import StepTable
from weft.wrapped_model import unwrap


def parallelize(
    model,
    optimizer,
    example_batch,
    *,
    parallel="",
    plan="",
    batch="global",
    pad=None,
    precision="f32",
    clip_norm=0.0,
    accumulate=1,
    loss_scale=None,
    bad_loss="stop",
    keep_gradients=False,
    budget_bytes=0,
    seed=0,
    loss=None,
) -> Trainer:
    """Runs the training steps of `model` on all ranks that torchrun started.

    With `batch="global"`, every rank gives the whole batch of a step and takes
    its part of it; ranks that give different ones are told so. With
    `batch="local"`, every rank gives its own part, as it comes from a
    DistributedSampler, and the loss is that of all parts together. Batches have
    the structure of `example_batch`; shapes may differ. The model's parameters
    and buffers and the optimizer's state are those of the steps, which change
    them in place; they start from those of rank 0. Where the ranks share them
    (zero=3, tensor=2, pipeline=2), the script's copies are brought up to date by
    `state_dict` and `optimizer_state_dict`.

    `parallel` says in words how the ranks share the step, as in
    "data=2,tensor=2,zero=1" (docs/parallel.md); `plan` says it value by value,
    as the text of a plan or a path object to one. Without either, each rank takes
    an equal part of the batch. In a local batch, `pad` names the tensors that are
    made as long as on the rank where they are longest, and with which value, as
    in {"input_ids": 0, "labels": -100}. `precision` as in `weft.capture`; with
    "bf16" the model itself becomes bf16. Gradients are scaled down to the global
    norm `clip_norm`. So many batches as `accumulate` says make one step of the
    optimizer. `loss_scale` is where dynamic loss scaling starts; "f16-mixed"
    scales without it too. `bad_loss` says what to do when the loss is not
    finite: "stop" (raise), "skip" (the step changes nothing) or "go-on". With
    `keep_gradients`, `parameter.grad` is set after a step. `budget_bytes` is the
    most memory that a rank may use. Dropout follows from `seed`. `loss` says which
    part of the model's output is the loss, as in `weft.capture`.
    """
    options = {
        "parallel": parallel,
        "plan": pathlib.Path(plan).read_text() if isinstance(plan, os.PathLike) else plan,
        "plan_source": os.fspath(plan) if isinstance(plan, os.PathLike) else "plan",
        "batch": batch,
        "pad": pad or {},
        "precision": precision,
        "clip_norm": clip_norm,
        "accumulate": accumulate,
        "loss_scale": loss_scale,
        "bad_loss": bad_loss,
        "keep_gradients": keep_gradients,
        "budget_bytes": budget_bytes,
        "seed": seed,
        "loss": loss,
    }
    return Trainer(model, optimizer, example_batch, options)


class Trainer:
    """Steps of one model; made by `weft.parallelize`.

    On several ranks, every rank makes the same calls.
    """

    def __init__(self, model, optimizer, example_batch, options):
        check_parts(model, optimizer)
        model = unwrap(model)
        check_places(model, example_batch, optimizer)
        self.model = model
        self.optimizer = optimizer
        # Updates of the parameters so far.
        self.steps = 0
        # What the last call of `step` came to: loss, gradient_norm, is_skipped, is_update.
        self.last = None
        self._calls = 0
        self._kept = []
        self._options = options
        self._fixed = _fixed_options(optimizer)
        self._grouped = [list(group["params"]) for group in optimizer.param_groups]
        # The core must not keep this object alive, which keeps the core.
        this = weakref.ref(self)
        captured = {"name": "model", "precision": options["precision"], "loss": options["loss"]}
        self._table = StepTable(
            model,
            optimizer,
            captured,
            lambda: this()._gather_model(),
            lambda: dict(this()._core.whole_batch()),
            gives_parts=options["batch"] == "local",
        )
        self._core = _weft.Trainer(lambda evaluation, sizes: this()._capture(evaluation, sizes), options)
        # By name, the script's copy that the steps know of: of a tensor its last writing, of a state the object.
        self._seen = {}
        self._found_for = None
        # The states that the optimizer has been given.
        self._placed = set()
        self._with_states = {}
        if self._core.ranks > 1 and options["batch"] == "local":
            self._core.select(self._table.find(example_batch, is_step=False)[0].state_name)
            self._core.find_parts(self._table.inputs(example_batch))
        step, tensors = self._find(example_batch, is_step=False)
        self._core.prepare(tensors, False)
        self._find_tensors(step)
        self._take_in(from_first=True)
        self._table.refresh()

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def ranks(self) -> int:
        return self._core.ranks

    @property
    def data_ranks(self) -> int:
        """How many different batches the ranks give to a step: num_replicas of a DistributedSampler."""
        return self._core.data_ranks

    @property
    def data_rank(self) -> int:
        """Which of them this rank gives: rank of a DistributedSampler."""
        return self._core.data_rank

    @property
    def loss_scale(self) -> float:
        """By which the next step scales the loss; 1 without loss scaling."""
        return self._core.loss_scale

    def step(self, batch) -> float:
        """One training step; gives the loss of the whole batch, of all ranks."""
        self._check_options()
        tensors = self._step_for(batch)
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.last = self._core.train(tensors, self._calls, rates)
        self._has_run()
        self._calls += 1
        if self.last.is_update:
            self.steps += 1
            self.optimizer._opt_called = True  # the schedulers of torch ask for it
        if self._options["keep_gradients"]:
            for name, gradient in self._core.gradients():
                self.model.get_parameter(name).grad = gradient
        return self.last.loss

    def evaluate(self, batch) -> float:
        """The loss of the whole batch, of all ranks, the model in evaluation mode."""
        tensors = self._step_for(batch, evaluation=True)
        loss = self._core.evaluate(tensors, self._calls)
        self._has_run()
        return loss

    def state_dict(self) -> dict:
        """The model's, whole on every rank; the model itself is whole from then on, until the next step."""
        self._gather_model()
        return self.model.state_dict()

    def optimizer_state_dict(self) -> dict:
        """The optimizer's, whole on every rank."""
        for name, parameter, key, tensor, is_everywhere in self._kept_states:
            if not is_everywhere:
                whole = self._core.whole(name)
                if tensor is None:
                    self.optimizer.state[parameter][key] = self._seen[name] = whole
        return self.optimizer.state_dict()

    def save(self, folder, *, extra=None, keep=0) -> str:
        """Writes a checkpoint FOLDER/step-N and gives its path.

        Any number of ranks can load it. `extra` is anything that JSON can hold,
        such as the state of a scheduler. Of older ones, the newest stay so that
        there are `keep`; all do with 0.
        """
        self._take_in()
        path = self._core.save(str(folder), self.steps, json.dumps(extra), keep)
        if self.rank == 0:
            _weft.keep_description(str(folder), describe(self.model))
        return path

    def load(self, path):
        """Goes on from a checkpoint, and gives the `extra` that was saved.

        `path` is a checkpoint, or a folder of them: then the last whole one
        counts. From a .safetensors file or a Hugging Face folder, parameters and
        buffers are loaded, and all else stays. A checkpoint of another precision
        is refused; another seed, clip_norm, accumulate or bad_loss is a warning.
        """
        self._take_in()
        step, extra, notes = self._core.load(str(path))
        if self.rank == 0:
            for note in notes:
                warnings.warn(f"{path}: {note}", stacklevel=2)
        self._gather_model()
        if step is None:
            return None
        self.steps = step
        self._calls = step * self._options["accumulate"]
        return json.loads(extra)

    def _step_for(self, batch, evaluation=False):
        """Has the core ready for this batch and what the script is by now; gives the inputs."""
        self._take_in()
        step, tensors = self._find(batch, evaluation)
        if not step.states:
            self._core.prepare(tensors, evaluation)
        if self._find_tensors(step):
            self._take_in()
        return tensors

    def _find(self, batch, evaluation=False, is_step=True):
        """(step, inputs) for this batch, which on several ranks may be a part of it, selected in the core."""
        if self._core.ranks == 1:
            step, tensors = self._table.find(batch, evaluation, is_step)
        else:
            tensors = self._table.inputs(batch)
            sizes = self._core.agree(tensors, evaluation, not is_step)
            step, _ = self._table.find(batch, evaluation, is_step, sizes)
        self._core.select(step.state_name)
        return step, tensors

    def _capture(self, evaluation, sizes):
        try:
            return self._table.capture(evaluation, sizes)
        finally:
            # The capture has written into buffers and put them back: that is no change of the script's, whose copies
            # are older than the steps' tensors after the next step.
            for name, mine, tensor, _ in self._kept:
                if tensor is None:
                    self._seen[name] = (mine._version, mine.data_ptr())

    def _tensors(self, batch):
        """Likewise, for who asks the core about the step: nothing is captured for training."""
        return self._find(batch, is_step=False)[1]

    def _has_run(self):
        self._table.finish()
        for name in self._table.outdated:
            self._core.forget(name)
        self._table.outdated.clear()

    def _check_options(self):
        check_hooks(self.optimizer)
        if self._options["accumulate"] > 1:
            _check_accumulated(self.model)
        if any(isinstance(group["lr"], torch.Tensor) for group in self.optimizer.param_groups):
            check_options(self.optimizer)
        for group, (before, now) in enumerate(zip(self._fixed, _fixed_options(self.optimizer), strict=False)):
            for key, value in now.items():
                if before.get(key) != value:
                    raise UserError(
                        f"the optimizer's {key} of group {group} was {before.get(key)} and is {value}: only lr may "
                        "change between steps. With OneCycleLR or CyclicLR, give cycle_momentum=False"
                    )
        if len(self._fixed) != len(self.optimizer.param_groups):
            raise UserError("the optimizer has another number of parameter groups than before: call parallelize again")
        for group, (before, now) in enumerate(zip(self._grouped, self.optimizer.param_groups, strict=True)):
            if [*map(id, before)] != [*map(id, now["params"])]:
                raise UserError(
                    f"the optimizer has other parameters in group {group} than before: call parallelize again. "
                    "Parameters that shall rest for some steps are left alone with requires_grad_(False)"
                )

    def _gather_model(self):
        """Brings the script's model up to date."""
        for name, mine, tensor, is_everywhere in self._kept:
            if not is_everywhere:
                whole = self._core.whole(name)
                if tensor is None:
                    mine.data.copy_(whole)

    def _find_tensors(self, step):
        """What the steps keep, beside what the script holds: the same lists on every rank.

        A tensor of which this rank has all is the script's own from now on. Of the others it has a piece or, in a
        pipeline, nothing: the script's copy is as old as the last `state_dict`.
        """
        found_for = (step.held, self._core.kept_count)
        if found_for == self._found_for:
            return False
        self._found_for = found_for
        parameters = dict(self.model.named_parameters())
        held = {**parameters, **dict(self.model.named_buffers())}
        # (name, the model's tensor, the steps' tensor or None, whether all ranks have all of it).
        self._kept = []
        # (name, parameter, key in its state, the steps' tensor or None, likewise).
        self._kept_states = []
        for kind, names, tensor, is_everywhere in self._core.kept():
            name = f"{kind}/{names[0]}"
            if kind != "state":
                # Of a module that the script has taken out, the steps keep what it had.
                if names[0] in held:
                    self._kept.append((name, held[names[0]], tensor, is_everywhere))
                continue
            of, _, key = names[0].rpartition(".")
            if of not in parameters:
                continue
            if of in self._with_states and self._with_states[of] is not parameters[of]:
                raise UserError(
                    f"the parameter {of} was replaced by another one, and the optimizer has a state for the old one: "
                    "call parallelize again"
                )
            self._with_states[of] = parameters[of]
            if key != "gradient":  # a sum that accumulation keeps
                self._kept_states.append((name, parameters[of], key, tensor, is_everywhere))
        return True

    def _take_in(self, from_first=False):
        """What the script has put in place of the steps' tensors goes into them, which take its place."""
        fill = self._core.fill
        for name, mine, tensor, _ in self._kept:
            if tensor is not None:
                if from_first or mine.data_ptr() != tensor.data_ptr() or tensor.numel() == 0:
                    if not from_first:
                        _check_strides(name, mine, tensor)
                    fill(name, mine.detach(), from_first)
                    mine.data = tensor
            elif from_first or self._seen.get(name) != (mine._version, mine.data_ptr()):
                fill(name, mine.detach(), from_first)
                self._seen[name] = (mine._version, mine.data_ptr())
        # SGD with dampening only has to know whether its first step is over.
        past = {parameter for parameter, state in self.optimizer.state.items() if state}
        kept = set(self.optimizer.state)
        given = {
            name for name, parameter, key, _, _ in self._kept_states if key in self.optimizer.state.get(parameter, {})
        }
        if from_first:
            given = set(self._core.names_of_first(sorted(given)))
        for name, parameter, key, tensor, _ in self._kept_states:
            state = self.optimizer.state[parameter]
            value = state.get(key)
            known = self._seen.get(name) if tensor is None else tensor
            if name in given:
                if value is None or value is not known:
                    fill(name, None if value is None else torch.as_tensor(value), from_first)
            elif tensor is not None and key == "step" and parameter in past:
                fill(name, torch.ones_like(tensor), False)
            elif name in self._placed and (parameter not in kept or tensor is not None):
                # The script has taken the state away, so the optimizer begins anew.
                if tensor is None:
                    raise UserError(
                        f"the optimizer's state was cleared, and the ranks share {key} of it: call parallelize again"
                    )
                fill(name, torch.zeros_like(tensor), False)
            self._placed.add(name)
            if tensor is None:
                self._seen[name] = value
            else:
                state[key] = tensor


def _check_accumulated(model):
    """Throws UserError for a hook that would see the sum of gradients so far, where each batch has its own."""
    for name, parameter in model.named_parameters():
        if parameter._post_accumulate_grad_hooks:
            raise UserError(
                f"not supported: a hook of register_post_accumulate_grad_hook on {name} with accumulate above 1: use "
                "register_hook, which sees the gradient of each batch"
            )


def _check_strides(name, now, before):
    """Throws UserError where the script has given a tensor that lies otherwise in memory: kernels round by that."""
    dims = [dim for dim in range(before.dim()) if before.size(dim) > 1]
    if now.shape == before.shape and any(now.stride(dim) != before.stride(dim) for dim in dims):
        kind, _, key = name.partition("/")
        raise UserError(
            f"the {kind} {key} was given a tensor with strides {now.stride()}, and the steps have {before.stride()}: "
            "copy_ into it, or call parallelize again"
        )


def _fixed_options(optimizer):
    """Of each group, what is part of the captured step. Schedulers add notes of their own to groups."""
    return [
        {key: value for key, value in group.items() if key in optimizer.defaults and key != "lr"}
        for group in optimizer.param_groups
    ]
