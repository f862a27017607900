# SPDX-License-Identifier: Apache-2.0
"""Families of Hugging Face with mixtures of experts."""

from packages.family import families

EXPERTS = """
    afmoe aria_text axk2 bailing_hybrid cohere2_moe deepseek_v4 exaone_moe flex_olmo glm4_moe glm4_moe_lite
    gpt_oss granitemoe granitemoe_swa granitemoeshared hunyuan_v1_moe hy_v3 inkling_text jamba jetmoe kolibri1
    laguna llama4_text mellum minimax minimax_m2 minimax_m3_vl_text mixtral nemotron_h nllb-moe olmoe phimoe
    qwen2_moe qwen3_5_moe_text qwen3_moe qwen3_next qwen4_exp_text solar_open switch_transformers
"""

MODELS = families(EXPERTS)
