# SPDX-License-Identifier: Apache-2.0
"""Hooks of parameters, of all modules and of optimizers: followed as eager PyTorch follows them, or refused by name."""

import copy

import pytest
import torch
import weft
from test_state_changes import captures, compare, make
from torch import nn


def halve(gradient):
    return gradient * 0.5


def halve_in_place(parameter):
    parameter.grad.mul_(0.5)


def put_another(parameter):
    parameter.grad = parameter.grad * 0.5


def drop(parameter):
    parameter.grad = None


def test_a_hook_of_a_parameter_comes_and_goes():
    def change(model, _, number):
        if number == 2:
            model.handle = model.first.weight.register_hook(halve)
        if number == 4:
            model.handle.remove()

    assert captures(compare(change)) == 2


@pytest.mark.parametrize("hook", [halve_in_place, put_another, drop])
def test_a_hook_of_a_whole_gradient(hook):
    def change(model, _, number):
        if number == 1:
            model.second.weight.register_post_accumulate_grad_hook(hook)

    compare(change)


def test_a_hook_that_takes_itself_away():
    def change(model, _, number):
        if number == 1:

            def once(gradient):
                model.handle.remove()
                return gradient * 3

            model.handle = model.first.weight.register_hook(once)

    compare(change)


def test_a_hook_of_all_modules():
    def double(module, inputs, output):
        return output * 2 if isinstance(module, nn.Linear) else None

    def change(model, _, number):
        if number == 1:
            model.handle = nn.modules.module.register_module_forward_hook(double)
        if number == 3:
            model.handle.remove()

    compare(change)


@pytest.mark.parametrize("register", ["register_step_pre_hook", "register_step_post_hook"])
def test_a_hook_of_an_optimizer_is_refused_by_name(register):
    model, optimizer = make()
    given = {"inputs": torch.randn(8, 6), "labels": torch.randint(3, (8,))}
    trainer = weft.parallelize(model, optimizer, given)
    trainer.step(given)
    getattr(optimizer, register)(lambda *_: None)
    with pytest.raises(weft.UserError, match=f"an optimizer with a hook of {register}, which would not be called"):
        trainer.step(given)
    with pytest.raises(weft.UserError, match=f"an optimizer with a hook of {register}"):
        weft.parallelize(model, optimizer, given)


def test_a_norm_is_no_negative_number():
    model, optimizer = make()
    given = {"inputs": torch.randn(8, 6), "labels": torch.randint(3, (8,))}
    with pytest.raises(weft.UserError, match="clip_norm is the largest norm that gradients may have"):
        weft.parallelize(model, optimizer, given, clip_norm=-1.0)


def test_parameters_that_leave_a_group_are_refused_by_name():
    model, optimizer = make()
    given = {"inputs": torch.randn(8, 6), "labels": torch.randint(3, (8,))}
    trainer = weft.parallelize(model, optimizer, given)
    trainer.step(given)
    optimizer.param_groups[0]["params"].pop()
    with pytest.raises(weft.UserError, match="the optimizer has other parameters in group 0 than before"):
        trainer.step(given)


@pytest.mark.parametrize("options", [{}, {"optimizer": torch.optim.SGD, "momentum": 0.9, "dampening": 0.5}])
def test_an_optimizer_whose_state_is_cleared_begins_anew(options):
    def clear(_, optimizer, number):
        if number == 3:
            optimizer.state.clear()

    compare(clear, **options)

    def load_the_first(model, optimizer, number):
        if number == 0:
            model.at_first = copy.deepcopy(optimizer.state_dict()) if not optimizer.state else {"state": {}}
            model.at_first["state"], model.at_first["param_groups"] = {}, optimizer.state_dict()["param_groups"]
        if number == 3:
            optimizer.load_state_dict(model.at_first)

    compare(load_the_first, **options)


class Decaying(torch.optim.SGD):
    """No optimizer of torch.optim, whatever it is called."""

    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.mul_(0.9)


def test_a_subclass_is_not_taken_for_its_parent():
    kind = type("SGD", (Decaying,), {"__module__": "torch.optim.sgd"})
    model = torch.nn.Linear(6, 1)
    with pytest.raises(weft.UserError, match="the optimizer SGD of torch.optim.sgd: only those of torch.optim"):
        weft.parallelize(model, kind(model.parameters(), lr=0.1), (torch.randn(4, 6),), loss=torch.mean)


def test_a_step_that_was_replaced_is_refused():
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    trainer = weft.parallelize(model, optimizer, (torch.randn(4, 6),), loss=torch.mean)
    optimizer.step = lambda closure=None: None
    with pytest.raises(weft.UserError, match="an optimizer whose step was replaced by another function"):
        trainer.step((torch.randn(4, 6),))


def test_hooks_of_the_node_that_accumulates_come_and_go():
    nodes = {}

    def change(model, _, number):
        weight = model.first.weight
        if number == 1:
            # Who holds the node keeps it and its hooks.
            node = weight.expand_as(weight).grad_fn.next_functions[0][0]
            nodes[model] = node, node.register_prehook(lambda gradients: (gradients[0] * 0.5,))
        if number == 3:
            nodes[model][1].remove()

    assert captures(compare(change)) == 2


def test_a_hook_on_the_sum_of_gradients_is_refused_with_accumulation():
    model = torch.nn.Linear(6, 1)
    model.weight.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", parameter.grad * 0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(weft.UserError, match="a hook of register_post_accumulate_grad_hook on weight with accumulate"):
        trainer = weft.parallelize(model, optimizer, (torch.randn(4, 6),), accumulate=2, loss=torch.mean)
        trainer.step((torch.randn(4, 6),))
