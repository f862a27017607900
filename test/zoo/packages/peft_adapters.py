# SPDX-License-Identifier: Apache-2.0
"""Adapters of peft on tiny Hugging Face models: most parameters do not train."""

import functools

from packages.family import family


def adapted(kind, base="llama", task="CAUSAL_LM", **options):
    import peft

    model, batch = family(base)
    config = getattr(peft, kind)(task_type=task, **options)
    return peft.get_peft_model(model, config), batch


LINEAR = ["q_proj", "v_proj"]
MODELS = {
    "LoRA": functools.partial(adapted, "LoraConfig", r=4, lora_dropout=0.0, target_modules=LINEAR),
    "LoRA_gpt2": functools.partial(adapted, "LoraConfig", base="gpt2", r=4, lora_dropout=0.0, fan_in_fan_out=True),
    "DoRA": functools.partial(adapted, "LoraConfig", r=4, use_dora=True, target_modules=LINEAR),
    "rsLoRA": functools.partial(adapted, "LoraConfig", r=4, use_rslora=True, target_modules="all-linear"),
    "LoRA_modules_to_save": functools.partial(
        adapted, "LoraConfig", r=4, target_modules=LINEAR, modules_to_save=["lm_head"]
    ),
    "IA3": functools.partial(
        adapted, "IA3Config", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    ),
    "AdaLoRA": functools.partial(adapted, "AdaLoraConfig", target_modules=LINEAR, total_step=100, tinit=10, tfinal=10),
    "LoHa": functools.partial(adapted, "LoHaConfig", r=4, target_modules=LINEAR),
    "LoKr": functools.partial(adapted, "LoKrConfig", r=4, target_modules=LINEAR),
    "OFT": functools.partial(adapted, "OFTConfig", oft_block_size=8, target_modules=LINEAR),
    "BOFT": functools.partial(adapted, "BOFTConfig", boft_block_size=8, target_modules=LINEAR),
    "VeRA": functools.partial(adapted, "VeraConfig", r=4, target_modules=LINEAR),
    "LayerNormTuning": functools.partial(adapted, "LNTuningConfig"),
    "PromptTuning": functools.partial(adapted, "PromptTuningConfig", num_virtual_tokens=4),
    "PromptEncoder": functools.partial(adapted, "PromptEncoderConfig", num_virtual_tokens=4, encoder_hidden_size=16),
    "PrefixTuning": functools.partial(adapted, "PrefixTuningConfig", num_virtual_tokens=4),
    "AdaptionPrompt": functools.partial(adapted, "AdaptionPromptConfig", adapter_len=4, adapter_layers=1),
    "HRA": functools.partial(adapted, "HRAConfig", r=4, target_modules=LINEAR),
    "FourierFT": functools.partial(adapted, "FourierFTConfig", n_frequency=16, target_modules=LINEAR),
}
