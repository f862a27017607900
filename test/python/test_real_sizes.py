# SPDX-License-Identifier: Apache-2.0
"""`weft plan` for published models in their full sizes: a plan, or the nearest that would do, and no internal error."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

pytest.importorskip("transformers")

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / "examples" / "models" / "published.py"
# Packages that only the zoo has lie apart from .venv.
WITH_ZOO = f"""
import sys
sys.path.insert(0, {str(ROOT / "test" / "zoo")!r})
import zoo
zoo.use_packages()
from published import *
"""
CLUSTERS = ["1x8xH100", "8x8xH100", "2x8xA100-80G", "16x8xH200"]
# With the rows of a step.
MODELS = {
    "llama_3_8b": 256,
    "llama_3_70b": 256,
    "mistral_7b": 256,
    "qwen_2_5_72b": 256,
    "gemma_2_27b": 256,
    "phi_4": 256,
    "mixtral_8x7b": 256,
    "mixtral_8x22b": 256,
    "qwen_3_30b_a3b": 256,
    "qwen_3_235b_a22b": 256,
    "deepseek_v2_lite": 256,
    "deepseek_v2": 256,
    "gpt_oss_20b": 256,
    "gpt_oss_120b": 256,
    "olmoe_7b": 256,
    "t5_11b": 1024,
    "whisper_large": 1024,
    "vit_22b": 1024,
    "flux_12b": 256,
    "stable_diffusion_3_8b": 256,
    "pixart_sigma": 1024,
}
DIFFUSION = {"flux_12b", "stable_diffusion_3_8b", "pixart_sigma"}


def plan(model, cluster, *more, file=FILE):
    """What `weft plan` says, and how long it took. In bf16: PyTorch's autocast leaves grouped products in f32."""
    weft = pathlib.Path(sys.executable).parent / "weft"
    begin = time.time()
    done = subprocess.run(
        [
            *(str(weft), "plan", f"{file}:{model}", "--cluster", cluster, "--precision", "bf16"),
            *("--global-batch", str(MODELS[model]), "--json", *more),
        ],
        capture_output=True,
        text=True,
        timeout=1200,
        env=os.environ,
    )
    return done, time.time() - begin


def check(done):
    """The best candidate, or None where nothing fits and the message says what would."""
    assert "internal error" not in done.stderr.lower(), done.stderr[-2000:]
    if done.returncode == 0:
        return json.loads(done.stdout)
    assert "no plan fits" in done.stderr, done.stderr[-2000:]
    return None


def test_experts_are_shared_by_a_plan_for_mixtral():
    # Two layers for the sake of time: all layers are alike, and the search knows that.
    words = ["--fix", "expert=8", "--fix", "pipeline=1", "--fix", "tensor=1"]
    done, _ = plan("mixtral_8x7b", "1x8xH100", "--set", "num_hidden_layers=2", *words)
    assert check(done) is not None, done.stderr
    assert "expert=8" in done.stdout


@pytest.mark.campaign
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_plan_is_found(model, cluster, tmp_path):
    file = FILE
    if model in DIFFUSION:
        if not (ROOT / ".venv" / "zoo").exists():
            pytest.skip("the packages of the zoo are not installed: make zoo")
        file = tmp_path / "with_zoo.py"
        file.write_text(WITH_ZOO)
    done, seconds = plan(model, cluster, file=file)
    found = check(done)
    print(f"{model} on {cluster}: {'a plan' if found else 'nothing fits'} in {seconds:.1f} s")
