"""The example models: their published sizes, that they train, and that they are plain PyTorch."""

import importlib.util
import itertools
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "models"
FILES = sorted(FOLDER.glob("*.py"))

PARAMETERS = {
    "gpt:gpt2_small": 124_439_808,
    "gpt:gpt2_medium": 354_823_168,
    "gpt:gpt2_large": 774_030_080,
    "gpt:gpt2_xl": 1_557_611_200,
    "gpt:gpt3_175b": 174_604_259_328,
    "llama:llama_7b": 6_738_415_616,
    "llama:llama_70b": 68_976_648_192,
    "moe:mixtral_8x7b": 46_702_792_704,
    "moe:mixtral_8x22b": 140_620_634_112,
    "bert:bert_base": 109_514_298,
    "bert:bert_large": 335_174_458,
    "t5:t5_small": 60_506_624,
    "t5:t5_base": 222_903_552,
    "t5:t5_large": 737_668_096,
    "t5:t5_11b": 11_307_321_344,
    "vit:vit_base": 86_567_656,
    "vit:vit_large": 304_326_632,
    "vit:vit_huge": 632_045_800,
    "resnet:resnet50": 25_557_032,
    "resnet:resnet101": 44_549_160,
    "resnet:resnet152": 60_192_808,
    "resnet:wide_resnet": 596_691_240,
    "unet3d:unet3d": 22_578_339,
    "cosmoflow:cosmoflow": 8_907_556,
    "cosmoflow:cosmoflow_512": 92_272_420,
    "lstm:medium": 19_780_400,
    "lstm:large": 66_034_000,
}
# From `transformers`, built by hugging_face.py: language, vision, speech, state-space, experts.
HUGGING_FACE = (
    "gpt2 gptj gpt_neox opt bloom mpt llama mistral qwen2 qwen3 gemma gemma2 phi phi3 falcon olmo2 "
    "mixtral qwen3_moe gpt_oss mamba rwkv recurrent_gemma "
    "bert roberta distilbert electra albert deberta deberta-v2 mpnet modernbert "
    "t5 bart pegasus whisper wav2vec2 hubert "
    "vit beit dinov2 swin segformer convnext resnet mobilenet_v2 clip siglip"
)
OPTIMIZERS = {"AdamW", "Adam", "SGD", "Adagrad", "Adafactor"}
TINY = [path.stem for path in FILES if path.stem not in ("hugging_face", "published")]


def load(name: str) -> ModuleType:
    """The example file of that name, as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loss_of(model: torch.nn.Module, batch: tuple | dict) -> torch.Tensor:
    """Runs the model by the rule that all examples follow, and takes the loss out of what it returns."""
    out = model(**batch) if isinstance(batch, dict) else model(*batch)
    if isinstance(out, torch.Tensor):
        return out
    return out[0] if isinstance(out, tuple) else out.loss


@pytest.mark.parametrize("name", PARAMETERS)
def test_known_sizes_run_on_meta(name: str):
    file, function = name.split(":")
    with torch.device("meta"):
        model, batch, _ = getattr(load(file), function)()
        loss_of(model, batch).backward()
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("file", TINY)
def test_tiny_learns(file: str):
    torch.manual_seed(0)
    model, batch, optimizer = load(file).tiny()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(map(torch.isfinite, torch.tensor(losses)))
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("architecture", HUGGING_FACE.split())
def test_hugging_face_learns(architecture: str):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, batch, optimizer = load("hugging_face").build(architecture)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert model.training
    if "attention_mask" in batch:
        assert 0 < batch["attention_mask"].sum() < batch["attention_mask"].numel()


@pytest.mark.parametrize("file", TINY)
def test_docstrings_tell_the_number_of_parameters(file: str):
    module = load(file)
    with torch.device("meta"):
        model, _, _ = module.tiny()
    count = sum(parameter.numel() for parameter in model.parameters())
    assert module.tiny.__doc__.startswith(f"{count:,} parameters")


def test_options_override_the_defaults():
    gpt = load("gpt")
    with torch.device("meta"):
        model, (tokens, _), _ = gpt.gpt2_xl(layers=3, batch_size=2, sequence=64)
    assert len(model.blocks) == 3
    assert tokens.shape == (2, 64)


def test_every_optimizer_appears():
    with torch.device("meta"):
        assert {type(load(file).tiny()[2]).__name__ for file in TINY} == OPTIMIZERS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plain_pytorch(path: Path):
    assert not re.search(r"\bweft\b", path.read_text(), re.IGNORECASE)


def test_a_batch_has_padding():
    for file, seed in itertools.product(("gpt", "llama", "moe", "bert", "t5", "lstm"), range(3)):
        torch.manual_seed(seed)
        _, batch, _ = load(file).tiny()
        labels = batch["labels"] if isinstance(batch, dict) else batch[-1]
        assert 0 < (labels == -100).sum() < labels.numel()
