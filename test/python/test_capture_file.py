# SPDX-License-Identifier: Apache-2.0
"""The process in which `weft` captures FILE.py:FUNCTION."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Tells at its end which of torch's modules were imported.
MODEL = """
import atexit, sys
import torch

def write():
    with open({output!r}, "w") as file:
        file.write("\\n".join(sys.modules))

atexit.register(write)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        # torch describes these in Python.
        self.register_buffer("scale", 2.0 ** -torch.arange(4, dtype=torch.float32) / 4)

    def forward(self, x):
        return (self.linear(x) * self.scale).sum()

def step(batch_size=2):
    model = Model()
    return model, torch.ones(batch_size, 4), torch.optim.AdamW(model.parameters())
"""


def test_imports_no_compiler_and_runs_what_is_left_for_the_end(tmp_path):
    imported = tmp_path / "imported"
    model = tmp_path / "model.py"
    model.write_text(MODEL.format(output=str(imported)))
    output = tmp_path / "model.graph"
    subprocess.run([sys.executable, "-m", "weft.capture_file", f"{model}:step", output], check=True, cwd=ROOT)
    assert output.with_name("model.graph.json").is_file()
    assert output.read_text().startswith("graph @")
    names = imported.read_text().splitlines()
    assert "torch" in names
    assert "torch._dynamo" not in names
