# SPDX-License-Identifier: Apache-2.0
"""Programs written by hand that `weft run` runs on several ranks, against PyTorch."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

PROGRAM = os.environ.get("WEFT_PROGRAM", str(pathlib.Path(sys.executable).parent / "weft"))

# A linear layer as ZeRO has it: every rank holds a piece of the weight, gathers it, and keeps a piece of the gradient.
# {n} is the number of ranks, of which each has 2 rows of the batch and 3 of the weight.
ZERO = """program @zero on <data={n}>

block @step ranks 0 to {last} {{
  input %x : f32[2, {k}] = batch "0" at [data, -] offset(0)
  input %w : f32[3, 4] = parameter "w" trained at [data, -]
  start %w.whole = all_gather(%w) over {{data}} offset(256)
  wait %w.whole
forward:
  %y = aten.mm(%x, %w.whole) : f32[2, 4] at [data, -] offset(1024)
  free %w.whole
  %total = aten.sum(%y) : f32[] at [] +{{data}} offset(1088)
  start %loss = all_reduce(%total) over {{data}}
backward:
  %t = aten.t(%x) : f32[{k}, 2]{{1, {k}}} at [-, data]
  %g = aten.mm(%t, %y) : f32[{k}, 4] at [-, -] +{{data}} offset(256)
  start %g.piece = reduce_scatter(%g) over {{data}} offset(1152)
  wait %loss
  wait %g.piece
  free %x, %g
  return loss = %loss
  return gradient "w" = %g.piece
}}
"""

# Attention's change of hands: split by sequence, then by heads. Every rank has 1 of the sequence's {n} parts and {b}
# of the {n} x {b} heads.
HEADS = """program @heads on <sequence={n}>

block @step ranks 0 to {last} {{
  input %x : f32[1, {heads}, 5] = batch "0" at [sequence, -, -] offset(0)
  start %y = all_to_all(%x) over {{sequence}} offset(1024)
  wait %y
  free %x
forward:
  %z = aten.cumsum(%y, 0) : f32[{n}, {b}, 5] at [-, sequence, -] offset(2048)
  free %y
  return gradient "z" = %z
}}
"""

# A pipeline's hand-over in both directions, with what was sent kept on the host meanwhile.
STAGE = """block @stage{rank} ranks {rank} to {rank} {{
  input %x : f32[4] = batch "{rank}" at [-] offset(0)
  start %x.kept = copy(%x) to host
  start %x.sent = send(%x) to {next}
  start %k = receive : f32[4] at [-] offset(64) from {before}
  wait %x.sent
  wait %x.kept
  free %x
  start %x.back = copy(%x.kept) to device offset(0)
  wait %k
  wait %x.back
forward:
  %y = aten.sub.Tensor(%k, %x.back) : f32[4] at [-] offset(128)
  return gradient "y" = %y
}}
"""


CLUSTER = """cluster @four
device cpu
  flops_per_second f32 = 4.0e10
  memory_bytes = 1073741824
  memory_bytes_per_second = 8.0e9
  call_seconds = 4.0e-06
group node = 4 x cpu
  latency_seconds = 3.0e-05
  bytes_per_second = 1.0e9
"""


def weft_command(*arguments, environment=None):
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["shared", "gloo"])
def run(request, tmp_path):
    def run(text, inputs):
        (tmp_path / "step.program").write_text(text)
        save_file(inputs, tmp_path / "inputs.safetensors")
        (tmp_path / "four.cluster").write_text(CLUSTER)
        weft_command(
            *("run", tmp_path / "step.program", "--steps", 2, "--timeline", tmp_path / "measured.timeline"),
            *("--inputs", tmp_path / "inputs.safetensors", "--outputs", tmp_path / "outputs.safetensors"),
            environment={"WEFT_COMMUNICATION": request.param},
        )
        compared = weft_command(
            *("simulate", tmp_path / "step.program", "--cluster", tmp_path / "four.cluster"),
            *("--against", tmp_path / "measured.timeline"),
        )
        assert "the same, in the same order, with the same live bytes" in compared
        return load_file(tmp_path / "outputs.safetensors")

    return run


@pytest.mark.parametrize("ranks", [2, 4])
def test_weights_in_pieces_give_the_gradient_of_the_whole(run, ranks):
    torch.manual_seed(0)
    x, w = torch.randn(2 * ranks, 3 * ranks), torch.randn(3 * ranks, 4)
    outputs = run(
        ZERO.format(n=ranks, last=ranks - 1, k=3 * ranks),
        {"batch/0": x, "parameter/w": w},
    )
    y = x @ w
    torch.testing.assert_close(outputs["loss"], y.sum())
    torch.testing.assert_close(outputs["gradient/w"], x.T @ y)


@pytest.mark.parametrize("ranks", [2, 4])
def test_pieces_of_a_sequence_become_pieces_of_the_heads(run, ranks):
    torch.manual_seed(0)
    x = torch.randn(ranks, 3 * ranks, 5)
    outputs = run(HEADS.format(n=ranks, last=ranks - 1, heads=3 * ranks, b=3), {"batch/0": x})
    torch.testing.assert_close(outputs["gradient/z"], x.cumsum(0))


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_ring_of_sends(run, ranks):
    torch.manual_seed(0)
    x = torch.randn(ranks, 4)
    text = f"program @ring on <stage={ranks}>\n" + "".join(
        STAGE.format(rank=rank, next=(rank + 1) % ranks, before=(rank - 1) % ranks) for rank in range(ranks)
    )
    outputs = run(text, {f"batch/{rank}": x[rank].clone() for rank in range(ranks)})
    torch.testing.assert_close(outputs["gradient/y"], x[-1] - x[0])
