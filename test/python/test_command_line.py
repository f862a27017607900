# SPDX-License-Identifier: Apache-2.0
"""`weft plan` and `weft capture` go on in the Python process that captures: nothing of that is to be seen."""

import ctypes.util
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

WEFT = pathlib.Path(sys.executable).parent / "weft"

MODEL = """
import os, signal, sys
import torch

print("imported")

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        print("forward")
        os.system("echo from a child")
        return self.linear(x).sum()

def step(batch_size=2):
    model = Model()
    return model, torch.ones(batch_size, 4), torch.optim.AdamW(model.parameters())

def leaves(batch_size=2):
    sys.exit(3)

def is_killed(batch_size=2):
    os.kill(os.getpid(), signal.SIGSEGV)

def ends(batch_size=2):
    os._exit(5)

def tells_its_allocator(batch_size=2):
    maps = open("/proc/self/maps").read()
    print("jemalloc:", "libjemalloc" in maps, "preloaded:", os.environ.get("LD_PRELOAD"))
    return step(batch_size)
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "model.py"


def weft(*words, **options):
    return subprocess.run([WEFT, *words], capture_output=True, text=True, **options)


def test_finds_what_is_found_for_the_same_graph(root, tmp_path):
    tiny = f"{root}/examples/models/gpt.py:tiny"
    graph = tmp_path / "tiny.graph"
    assert weft("capture", tiny, "--batch-size", "4", "-o", graph).returncode == 0
    found = []
    for source in (tiny, graph):
        run = weft("plan", source, "--cluster", "2x8xA100-80G", "--global-batch", "4", "--json")
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
        del found[-1]["search_seconds"], found[-1]["seconds_by_stage"]
    assert found[0] == found[1]


def test_plans_the_step_as_it_is_trained(root, tmp_path):
    """Without gradients, which ranks would have to gather at its end."""
    graph, trained = tmp_path / "tiny.graph", tmp_path / "trained.graph"
    assert weft("capture", f"{root}/examples/models/gpt.py:tiny", "--batch-size", "4", "-o", graph).returncode == 0
    assert weft("opt", "--pass=drop-gradient-outputs", graph, "-o", trained).returncode == 0
    assert "return gradient" in graph.read_text() and "return gradient" not in trained.read_text()
    figures = []
    for source in (graph, trained):
        words = ["--global-batch", "4", "--fix", "data=2", "--fix", "zero=1", "--json"]
        run = weft("plan", source, "--cluster", "2xA100-80G", *words)
        found = json.loads(run.stdout)
        figures.append((found["words"], found["peak_bytes"], found["step_seconds"]))
    assert figures[0] == figures[1]


def test_output_is_of_the_command_alone(model):
    run = weft("capture", f"{model}:step")
    assert run.returncode == 0
    assert run.stdout.startswith("graph @step\n")
    assert run.stderr.splitlines() == ["imported", "forward", "from a child"]


def test_reads_a_plan_from_the_input(model):
    written = weft("plan", f"{model}:step", "--batch-size", "4", "--parallel", "data=2").stdout
    read = weft("plan", f"{model}:step", "--batch-size", "4", "--plan", "-", input=written)
    assert read.returncode == 0, read.stderr
    assert read.stdout == written


# The traceback of the user's code.
LEFT = ["Traceback (most recent call last):", '  File "FILE", in leaves', "    sys.exit(3)", "SystemExit: 3"]


@pytest.mark.parametrize(
    ("function", "message", "trace"),
    [
        ("leaves", "in leaves: SystemExit: 3", LEFT),
        ("is_killed", "model.py:is_killed: the Python process that captures it ended with 139", []),
        ("ends", "model.py:ends: the Python process that captures it ended with 5", []),
    ],
)
def test_a_process_that_ends_is_told_of(model, function, message, trace):
    run = weft("plan", f"{model}:{function}", "--cluster", "2xA100-80G", "--global-batch", "4")
    assert run.returncode == 2
    assert run.stdout == ""
    # The model's own print comes first, where it gets that far.
    told, *below = (line for line in run.stderr.splitlines() if line != "imported")
    assert told.startswith("weft: error: ") and told.endswith(message)
    assert [re.sub(r'".*", line \d+', '"FILE"', line) for line in below] == trace


@pytest.mark.skipif(not ctypes.util.find_library("jemalloc"), reason="jemalloc is not installed")
def test_plans_with_a_faster_allocator_unless_the_user_has_set_one(model, tmp_path):
    words = ("capture", f"{model}:tells_its_allocator", "-o", tmp_path / "step.graph")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    assert "jemalloc: True" in weft(*words, env=environment).stderr
    assert "jemalloc: False preloaded: libm.so.6" in weft(*words, env=environment | {"LD_PRELOAD": "libm.so.6"}).stderr
