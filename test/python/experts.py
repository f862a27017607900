# SPDX-License-Identifier: Apache-2.0
"""Steps of Hugging Face's mixtures of experts, tiny and from their configurations, in eager PyTorch and on real ranks."""

import os
import pathlib
import subprocess
import sys

import torch
import transformers
import weft

COMMON = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    use_cache=False,
)
LATENT = dict(
    moe_intermediate_size=16,
    n_routed_experts=4,
    n_shared_experts=1,
    num_experts_per_tok=2,
    first_k_dense_replace=1,
    kv_lora_rank=8,
    qk_rope_head_dim=4,
    qk_nope_head_dim=8,
    v_head_dim=8,
)
MANY = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
FAMILIES = {
    "mixtral": dict(num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": MANY | dict(shared_expert_intermediate_size=16),
    "qwen3_moe": MANY | dict(head_dim=8),
    "qwen3_next": MANY
    | dict(
        shared_expert_intermediate_size=16,
        head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
    "deepseek_v2": LATENT | dict(q_lora_rank=None, n_group=1, topk_group=1),
    "deepseek_v3": LATENT | dict(q_lora_rank=8, n_group=2, topk_group=1),
    "gpt_oss": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=8),
    "olmoe": dict(num_experts=4, num_experts_per_tok=2, intermediate_size=16),
    "granitemoe": dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=16),
    "phimoe": dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=16),
    "glm4_moe": MANY | dict(n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1, head_dim=8),
    "jamba": dict(num_experts=4, num_experts_per_tok=2, mamba_d_state=4, mamba_dt_rank=4, use_mamba_kernels=False),
    "minimax": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=8, block_size=8),
}


def build(family: str, implementation: str = "grouped_mm", statistics: bool = False, batch_size: int = 4):
    """The model, a batch and an optimizer. `statistics`: with the loss that balances the experts' load."""
    torch.manual_seed(0)
    options = COMMON | FAMILIES[family] | ({"output_router_logits": True} if statistics else {})
    config = transformers.AutoConfig.for_model(family, **options)
    model = transformers.AutoModelForCausalLM.from_config(config, experts_implementation=implementation)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    tokens = torch.randint(3, 64, (batch_size, 16))
    batch = {"input_ids": tokens, "labels": tokens.clone()}
    return model, batch, torch.optim.AdamW(model.parameters(), lr=1e-3)


def eager(*options):
    model, batch, _ = build(*options)
    loss = model(**batch).loss
    loss.backward()
    return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}


def worst(got, expected):
    """The largest relative differences of the loss and of a gradient."""
    loss = abs(float(got[0]) - expected[0]) / abs(expected[0])
    known = {name: gradient for name, gradient in expected[1].items() if gradient is not None}
    largest = max(gradient.abs().max().item() for gradient in known.values())
    differences = [0.0]
    for name, gradient in known.items():
        # One that is 0 but for rounding is measured by the others.
        scale = max(gradient.abs().max().item(), 1e-3 * largest)
        differences.append((got[1][name] - gradient).abs().max().item() / scale)
    return loss, max(differences)


def on_ranks(ranks, folder, cells):
    """The loss and the gradients of one step of every (options of build, words), from real processes."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(cells, folder / "cells")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
            *(str(pathlib.Path(__file__)), str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [torch.load(folder / f"{number}") for number in range(len(cells))]


def main(folder):
    torch.set_num_threads(1)
    for number, (options, words) in enumerate(torch.load(folder / "cells")):
        print(options, words, file=sys.stderr, flush=True)
        model, batch, optimizer = build(*options)
        trainer = weft.parallelize(
            model, optimizer, batch, **({"parallel": words} if words else {}), keep_gradients=True
        )
        loss = trainer.step(batch)
        if os.environ["RANK"] == "0":
            gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
            torch.save((loss, gradients), folder / f"{number}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
