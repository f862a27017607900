# SPDX-License-Identifier: Apache-2.0
"""Writes text with a GPT that was trained on bytes, in plain PyTorch.

    python examples/sample_text.py run/model.safetensors width=128 layers=4

The options are those of `gpt2_small` that the model was trained with.
"""

import argparse
import ast
import pathlib
import sys

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).parent / "models"))
from gpt import GPT, gpt2_small  # noqa: E402


def load(path: str, options: dict) -> GPT:
    """The plain model, with the numbers of the file."""
    model = gpt2_small(**options)[0]
    model.load_state_dict(load_file(path))
    return model.eval()


@torch.no_grad()
def sample(model: GPT, start: bytes, count: int, temperature: float) -> bytes:
    """`start`, and `count` bytes that go on from it."""
    text = torch.tensor([list(start)])
    sequence = model.positions.num_embeddings
    for _ in range(count):
        logits = model.logits(text[:, -sequence:])[:, -1]
        chosen = torch.multinomial(torch.softmax(logits / temperature, dim=-1), 1)
        text = torch.cat([text, chosen], dim=1)
    return bytes(text[0].tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model.safetensors")
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="of the model's function")
    parser.add_argument("--start", default="def ")
    parser.add_argument("--count", type=int, default=400, help="bytes to write")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    options = {key: ast.literal_eval(value) for key, _, value in (text.partition("=") for text in chosen.options)}
    model = load(chosen.model, options)
    print(sample(model, chosen.start.encode(), chosen.count, chosen.temperature).decode(errors="replace"))


if __name__ == "__main__":
    main()
