# SPDX-License-Identifier: Apache-2.0
"""For torchrun: the steps of test_values.py and test_masks.py on ranks that share the batch, each against eager PyTorch.

In f64, where the order of sums hardly counts.
"""

import os
import sys

import test_doors
import test_masks
import test_read_shapes
import test_values
import torch
import weft

PARALLEL = sys.argv[1]


def tell(*words):
    # In one piece: two ranks write to one stream.
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def same(forward, data):
    test_values.check(forward, data, torch.float64, tolerance=1e-9, parallel=PARALLEL)
    tell("same", forward.__name__)


def signed(sign, noise):
    return sign + noise / 9


for forward in (test_values.divided_by_count, test_values.scaled, test_values.checked, test_values.into_place):
    same(forward, test_values.batches(dtype=torch.float64))
for forward in (test_values.branches, test_values.branches_late):
    same(forward, [*map(signed, (1, -1, 1, -1), test_values.batches(dtype=torch.float64))])
for forward in test_masks.MASKED:
    same(forward, [(x.double(), target, keep) for x, target, keep in test_masks.batches()])
same(test_read_shapes.sorted_by_mask, [*test_values.batches(dtype=torch.float64)] * 2)

net, good, bad = test_doors.words()
trainer = weft.parallelize(net, torch.optim.SGD(net.parameters(), lr=0.1), good, parallel=PARALLEL)
trainer.step(good)
try:
    trainer.step(bad)
except weft.UserError as error:
    tell("refused", error)
