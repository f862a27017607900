# SPDX-License-Identifier: Apache-2.0
"""Which Python files `weft` reads besides the one it is given: those beside it, and none that lie about elsewhere."""

import subprocess
import sys

import pytest
from training_runs import WEFT, environment

MODEL = """
import torch
{imports}

class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x).sum()

def step(batch_size=2):
    width = {width}
    model = Model(width)
    return model, torch.ones(batch_size, width), torch.optim.SGD(model.parameters())
"""
TRAP = "import os, pathlib\npathlib.Path(r'{mark}').write_text(__name__)\nos._exit(7)\n"
# What Weft and PyTorch import, at once or later.
TAKEN = ["torch", "json", "numpy", "random", "weft", "sympy", "runpy", "site", "pickle"]


def start_weft(words, folder, model="model.py:step", **variables):
    command, *more = words
    return subprocess.run(
        [WEFT, command, model, *more, "--python", sys.executable],
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(**variables),
        timeout=120,
    )


def run_weft(words, folder, model="model.py:step", **variables):
    done = start_weft(words, folder, model, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_model(folder, imports="", width=4, name="model.py"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(MODEL.format(imports=imports, width=width))


def lay_traps(folder, mark):
    folder.mkdir(exist_ok=True)
    for name in TAKEN:
        (folder / f"{name}.py").write_text(TRAP.format(mark=mark))


# The first starts Python for the graph alone, the others go on in it.
@pytest.mark.parametrize("words", ["profile", "capture", "plan --cluster 2xA100-80G --global-batch 2"])
def test_files_of_the_current_folder_are_not_executed(tmp_path, words):
    mark = tmp_path / "executed"
    lay_traps(tmp_path / "here", mark)
    write_model(tmp_path / "models", "import json, numpy, random")
    run_weft(words.split(), tmp_path / "here", f"{tmp_path}/models/model.py:step")
    assert not mark.exists(), mark.read_text()


def test_files_beside_the_model_take_no_others_place(tmp_path):
    mark = tmp_path / "executed"
    write_model(tmp_path / "models", "import json, numpy, random, sympy")
    lay_traps(tmp_path / "models", mark)
    run_weft(["profile"], tmp_path / "models")
    assert not mark.exists(), mark.read_text()


def test_a_model_imports_what_lies_beside_it(tmp_path):
    """A module, a package, one that imports another, and one with the name of a package that is installed."""
    folder = tmp_path / "models"
    write_model(
        folder, "from layers import WIDTH\nimport parts.sizes\nimport lit", "WIDTH + parts.sizes.MORE + lit.LAST"
    )
    (folder / "layers.py").write_text("import sizes_of_layers\nWIDTH = sizes_of_layers.WIDTH\n")
    (folder / "sizes_of_layers.py").write_text("WIDTH = 3\n")
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "sizes.py").write_text("MORE = 2\n")
    (folder / "lit.py").write_text("LAST = 6\n")
    (tmp_path / "here").mkdir()
    assert "f32[11, 11]" in run_weft(["capture", "-o", "-"], tmp_path / "here", f"{folder}/model.py:step")


def test_a_model_may_have_the_name_of_a_module(tmp_path):
    write_model(tmp_path, name="json.py")
    run_weft(["profile"], tmp_path, "json.py:step")


def test_the_current_folder_is_searched_where_the_user_says_so(tmp_path):
    write_model(tmp_path / "models", "from layers_of_mine import WIDTH", "WIDTH")
    here = tmp_path / "here"
    here.mkdir()
    (here / "layers_of_mine.py").write_text("WIDTH = 11\n")
    model = f"{tmp_path}/models/model.py:step"
    done = start_weft(["profile"], here, model)
    assert done.returncode == 2
    assert "layers_of_mine lies in the current folder, which is not searched: set PYTHONPATH=." in done.stderr
    run_weft(["profile"], here, model, PYTHONPATH=".")
