# SPDX-License-Identifier: Apache-2.0
"""What a run leaves is the model's state_dict, and `weft export --hf` writes what from_pretrained reads."""

import json
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from training_runs import WEFT, capture, checkpoints, environment, finish, make_text

MODELS = '''
import torch
from torch import nn


class Tied(nn.Module):
    """As nanoGPT ties them; with buffers of both kinds, and one that no step reads."""

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(256, 16)
        self.norm = nn.BatchNorm1d(16)
        self.unused = nn.Linear(2, 2)
        self.lm_head = nn.Linear(16, 256, bias=False)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("scale", torch.full((16,), 1.5))
        self.register_buffer("mask", torch.ones(16), persistent=False)
        self.register_buffer("idle", torch.arange(3))

    def forward(self, tokens, labels):
        x = self.norm((self.wte(tokens) * self.scale * self.mask).transpose(1, 2)).transpose(1, 2)
        return nn.functional.cross_entropy(self.lm_head(x).flatten(0, 1), labels.flatten())


def tied():
    model = Tied()
    tokens = torch.zeros(4, 16, dtype=torch.long)
    return model, (tokens, tokens.clone()), torch.optim.AdamW(model.parameters(), lr=1e-2)


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, input_ids, labels):
        return self.inner(input_ids=input_ids, labels=labels).loss * self.weight


def llama(tie=True, wrapped=False):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=300)
    model = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=tie, max_position_embeddings=64))
    model = Wrapped(model) if wrapped else model
    tokens = torch.zeros(4, 16, dtype=torch.long)
    batch = {"input_ids": tokens, "labels": tokens.clone()}
    return model, batch, torch.optim.AdamW(model.parameters(), lr=1e-2)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    (folder / "models.py").write_text(MODELS)
    make_text(folder / "data", 4000)
    return folder


@pytest.fixture(scope="module")
def tied(folder):
    """The captured step of `tied`, by precision."""
    graphs = {}

    def of(precision="f32"):
        if precision not in graphs:
            words = ["--set", f"capture:precision={precision}"]
            graphs[precision] = capture(f"{folder}/models.py:tied", folder / f"{precision}.graph", *words)
        return graphs[precision]

    return of


def models(folder):
    namespace = {}
    exec((folder / "models.py").read_text(), namespace)
    return namespace


def train(folder, model, output, *more):
    # Some virtual machines announce AMX and lack it: products of bf16 would be illegal instructions.
    words = [model, "--data", folder / "data", "--steps", 3, *more]
    status, _, err = finish(words, output, ONEDNN_MAX_CPU_ISA="AVX512_CORE")
    assert status == 0, err


def export(*words):
    words = [str(word) for word in words]
    return subprocess.run([WEFT, "export", *words], capture_output=True, text=True, env=environment(), timeout=60)


@pytest.mark.parametrize(("precision", "plan"), [("f32", "data=1"), ("f32", "pipeline=2"), ("bf16", "data=1")])
def test_the_file_is_the_state_dict(folder, tied, tmp_path, precision, plan):
    graph = tied(precision)
    text = graph.read_text()
    assert 'buffer "mask" saved()' in text and 'parameter "wte.weight" "lm_head.weight" trained' in text
    train(folder, graph, tmp_path / "run", "--parallel", plan)
    saved = load_file(tmp_path / "run" / "model.safetensors")
    model = models(folder)["Tied"]()
    if precision == "bf16":
        model.to(torch.bfloat16)
    assert set(saved) == set(model.state_dict())
    assert {key: value.dtype for key, value in saved.items()} == {k: v.dtype for k, v in model.state_dict().items()}
    model.load_state_dict(saved, strict=True)
    assert torch.equal(saved["wte.weight"], saved["lm_head.weight"])
    assert saved["norm.num_batches_tracked"] == 3 and saved["idle"].tolist() == [0, 1, 2]
    # The same, from any checkpoint, with no graph at hand.
    done = export(tmp_path / "run" / "step-3", "-o", tmp_path / "again.safetensors")
    assert done.returncode == 0, done.stderr
    again = load_file(tmp_path / "again.safetensors")
    assert all(torch.equal(again[key], saved[key]) for key in saved) and set(again) == set(saved)
    # And it can be started from.
    train(folder, graph, tmp_path / "next", "--load", tmp_path / "again.safetensors")
    # What a run is said to hold of a model of Hugging Face stays in its folder.
    description = tmp_path / "run" / "hugging_face.json"
    for text, why in [
        ('{"module": "", "files": {"../outside": "x"}}', 'a file "../outside" would lie outside of the folder'),
        ('{"module": "", "files": {"x": 1}}', "type must be string, but is number"),
        ("[" * 100_000, "line 1, column 101: values are nested deeper than 100"),
    ]:
        description.write_text(text)
        done = export(tmp_path / "run", "--hf", tmp_path / "hf")
        assert done.returncode == 2 and f"{description} is broken: {why}" in done.stderr, done.stderr
    assert not (tmp_path / "outside").exists()


def loss_of(model):
    tokens = (torch.arange(64).reshape(4, 16) * 7) % 256
    with torch.no_grad():
        return model.float().eval()(input_ids=tokens, labels=tokens).loss.item()


def check_folder(folder, where, dtype=torch.float32, prefix="", tie=True):
    """What from_pretrained gives has the loss of the trained state."""
    from transformers import AutoModelForCausalLM

    loaded, told = AutoModelForCausalLM.from_pretrained(where, output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    assert loaded.dtype == dtype
    expected, _, _ = models(folder)["llama"](tie=tie)
    saved = load_file(where.parent / "run" / "model.safetensors")
    expected = expected.to(dtype)
    expected.load_state_dict(
        {key.removeprefix(prefix): value for key, value in saved.items() if key.startswith(prefix)}, strict=True
    )
    assert loss_of(loaded) == loss_of(expected)
    assert loaded.config.tie_word_embeddings == tie


def test_hugging_face_reads_what_is_exported(folder, tmp_path):
    pytest.importorskip("transformers")
    train(folder, f"{folder}/models.py:llama", tmp_path / "run")
    done = export(tmp_path / "run", "--hf", tmp_path / "hf")
    assert done.returncode == 0, done.stderr
    assert f"wrote the model of {tmp_path}/run/step-3, after step 3, to {tmp_path}/hf" in done.stdout
    assert {path.name for path in (tmp_path / "hf").iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
    }
    check_folder(folder, tmp_path / "hf")
    # In several files.
    done = export(tmp_path / "run" / "step-3", "--hf", tmp_path / "shards", "--shard-bytes", 20_000)
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "shards" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    check_folder(folder, tmp_path / "shards")
    # A model that is there stays.
    done = export(tmp_path / "run", "--hf", tmp_path / "hf")
    assert done.returncode == 2 and "hf holds a model already, model.safetensors; choose another folder" in done.stderr


def test_the_part_of_a_model_that_hugging_face_knows(folder, tmp_path):
    pytest.importorskip("transformers")
    tokenizer = write_tokenizer(tmp_path / "tokens")
    words = ["--set", "tie=False", "--set", "wrapped=True", "--precision", "bf16", "--tokenizer", tokenizer]
    train(folder, f"{folder}/models.py:llama", tmp_path / "run", *words)
    done = export(tmp_path / "run", "--hf", tmp_path / "hf")
    assert done.returncode == 0, done.stderr
    assert "left out weight: not of inner, the part of the model that Hugging Face knows" in done.stderr
    check_folder(folder, tmp_path / "hf", torch.bfloat16, "inner.", tie=False)
    assert (tmp_path / "hf" / "tokenizer.json").read_text() == tokenizer.read_text()
    assert json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text()) == {"model_max_length": 64}


def write_tokenizer(folder):
    """Of bytes alone, with what lies beside it."""
    folder.mkdir()
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    rest = [b for b in range(256) if b not in printable]
    letters = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}
    model = {"type": "BPE", "dropout": None, "byte_fallback": False, "vocab": letters, "merges": []}
    split = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    whole = {"added_tokens": [], "normalizer": None, "pre_tokenizer": split, "post_processor": None, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    return folder / "tokenizer.json"


def test_a_cache_of_tokens_that_was_altered_is_made_again(tied, tmp_path):
    data = make_text(tmp_path / "data", 4000)
    tokenizer = write_tokenizer(tmp_path / "tokens")
    words = [tied(), "--data", data, "--tokenizer", tokenizer, "--steps", 2]
    status, _, err = finish(words, tmp_path / "0")
    assert status == 0, err

    def losses_of(output):
        return [json.loads(line)["loss"] for line in (output / "metrics.jsonl").read_text().splitlines()]

    [cache] = data.glob(".weft-tokens-*")
    whole = cache.read_bytes()
    altered = bytearray(whole)
    altered[0:64:2] = bytes(range(65, 97))
    for number, (content, said) in enumerate(
        [
            (whole[: len(whole) // 2], f"the token cache in {data} is made again: it does not end as one"),
            (bytes(altered), f"the token cache in {data} is made again: the checksum of its bytes from 0 on differs"),
        ],
        start=1,
    ):
        cache.write_bytes(content)
        status, _, err = finish([*words, "--parallel", "data=2"], tmp_path / str(number))
        assert status == 0, err
        assert err.count(said) == 1, err
        assert losses_of(tmp_path / str(number)) == pytest.approx(losses_of(tmp_path / "0"), rel=1e-5)
        assert cache.read_bytes() == whole
    assert [path.name for path in data.glob(".weft-tokens-*")] == [cache.name]


def test_what_cannot_be_exported(folder, tied, tmp_path):
    train(folder, tied(), tmp_path / "run")
    for words, said in [
        ([tmp_path / "none", "-o", "x"], f"{tmp_path}/none is no folder; give the --output of weft train, or a step-N"),
        ([tmp_path, "-o", "x"], f"{tmp_path} holds no checkpoint"),
        ([tmp_path / "run"], "give -o FILE.safetensors, or --hf FOLDER"),
        ([tmp_path / "run", "--hf", tmp_path / "hf"], "step-3 is not of a model of Hugging Face: there is no "),
    ]:
        done = export(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert checkpoints(tmp_path / "run") and not (tmp_path / "hf").exists()
