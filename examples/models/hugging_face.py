"""A small training step of any Hugging Face architecture, from its configuration alone: nothing is downloaded.

    build(architecture="bert", layers=4)

Architectures spell the same size in different ways (`n_layer`, `num_hidden_layers`, ...), so each size is listed here
once with its spellings, and given to the configuration under those that it knows. The task, and with it the loss, is
the first in a list for which the library has a model; the batch holds the inputs that this model's `forward` takes.

Letters: B batch, S sequence.
"""

import functools
import inspect

import torch
import transformers
from torch import Tensor, nn

# In order: an architecture that can do several tasks is built for the first.
TASKS = (
    transformers.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    transformers.MODEL_FOR_CTC_MAPPING,
    transformers.MODEL_FOR_MASKED_LM_MAPPING,
    transformers.MODEL_FOR_CAUSAL_LM_MAPPING,
    transformers.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING,
    transformers.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
)

# Some spellings are of sizes that others determine; they follow so that the configuration stays consistent.
SPELLINGS = {
    "layers": "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers depths",
    "width": "hidden_size hidden_sizes d_model n_embd dim embed_dim embedding_size word_embed_proj_dim conv_dim",
    "hidden": "intermediate_size d_ff ffn_dim hidden_dim encoder_ffn_dim decoder_ffn_dim ffn_hidden_size",
    "heads": "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads",
    "kv_heads": "num_key_value_heads num_kv_heads",
    "head_width": "head_dim d_kv rotary_dim",
    "experts": "num_local_experts num_experts n_routed_experts",
    "choices": "num_experts_per_tok",
    "vocabulary": "vocab_size",
    "sequence": "max_source_positions",
    "window": "window_size",
    "image": "image_size",
    "classes": "num_labels",
}


def resize(config: dict, sizes: dict[str, int]) -> dict:
    """The entries of a configuration that name a size, with the sizes asked for instead of their defaults."""
    idea_of = {spelling: idea for idea, spellings in SPELLINGS.items() for spelling in spellings.split()}
    resized = {}
    for name, default in config.items():
        if name in idea_of:
            size = sizes[idea_of[name]]
            is_list = isinstance(default, (list, tuple))  # a size for each stage: keep the proportions
            resized[name] = [size * value // default[0] for value in default] if is_list else size
        elif name.endswith("_token_id") and isinstance(default, int):
            resized[name] = min(default, sizes["vocabulary"] - 1)
        elif isinstance(default, dict) and "model_type" in default:  # a model within the model
            resized[name] = resize(default, sizes)
    return resized


def random_batch(model: nn.Module, batch_size: int, sequence: int, sizes: dict[str, int]) -> dict[str, Tensor]:
    """Inputs and labels for the model; texts have different lengths and are padded at the end."""
    config = model.config
    takes = inspect.signature(model.forward).parameters
    batch = {}
    if "input_ids" in takes:
        length = torch.randint(sequence // 2, sequence + 1, (batch_size, 1))
        mask = torch.arange(sequence) < length  # [B, S]
        tokens = torch.randint(3, sizes["vocabulary"], (batch_size, sequence))
        batch["input_ids"] = tokens.masked_fill(~mask, getattr(config, "pad_token_id", None) or 0)
        batch["labels"] = tokens.masked_fill(~mask, -100)
        if "attention_mask" in takes:
            batch["attention_mask"] = mask.long()
    if "pixel_values" in takes:
        batch["pixel_values"] = torch.randn(batch_size, 3, sizes["image"], sizes["image"])
        batch.setdefault("labels", torch.randint(sizes["classes"], (batch_size,)))
    if "input_values" in takes:  # sound waves
        batch["input_values"] = torch.randn(batch_size, 400 * sequence)
        batch["labels"] = torch.randint(3, sizes["vocabulary"], (batch_size, sequence // 4))
    if "input_features" in takes:  # spectrograms
        batch["input_features"] = torch.randn(batch_size, config.num_mel_bins, 2 * sequence)
        batch["labels"] = torch.randint(3, sizes["vocabulary"], (batch_size, sequence // 4))
    return {name: value for name, value in batch.items() if name in takes}


def build(
    architecture: str = "gpt2",
    layers: int = 2,
    width: int = 64,
    hidden: int = 128,
    heads: int = 4,
    kv_heads: int = 4,
    experts: int = 4,
    choices: int = 2,
    vocabulary: int = 256,
    classes: int = 10,
    sequence: int = 16,
    image: int = 64,
    batch_size: int = 2,
    **config,
) -> tuple[nn.Module, dict[str, Tensor], torch.optim.Optimizer]:
    """A model, a batch and AdamW. What else `config` names goes to the configuration as it is."""
    sizes = {
        "layers": layers,
        "width": width,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_width": width // heads,
        "experts": experts,
        "choices": choices,
        "vocabulary": vocabulary,
        "sequence": sequence,
        "image": image,
        "window": image // 32,
        "classes": classes,
    }
    defaults = transformers.AutoConfig.for_model(architecture).to_dict()
    options = resize(defaults, sizes) | {"num_labels": classes, "use_cache": False} | config
    if defaults.get("is_encoder_decoder"):
        options.setdefault("decoder_start_token_id", 0)
    full_config = transformers.AutoConfig.for_model(architecture, **options)
    task = next(task for task in TASKS if type(full_config) in task)
    model = task[type(full_config)](full_config)
    batch = random_batch(model, batch_size, sequence, sizes)
    if "return_loss" in inspect.signature(model.forward).parameters:  # contrastive models compute it when asked
        model.forward = functools.partial(model.forward, return_loss=True)
    return model, batch, torch.optim.AdamW(model.parameters(), lr=1e-3)
