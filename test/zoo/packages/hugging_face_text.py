# SPDX-License-Identifier: Apache-2.0
"""Families of text of Hugging Face: encoders, decoders, and both."""

from packages.family import families

ENCODERS = """
    albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie esmc
    eurobert fnet funnel gte ibert jina_embeddings_v3 layoutlm longformer megatron-bert mobilebert modernbert
    mpnet mra nomic_bert nystromformer rembert roberta roberta-prelayernorm roformer squeezebert tapas ultrabert
    xlm-roberta xlm-roberta-xl yoso
"""

DECODERS = """
    apertus arcee beam bert-generation biogpt bitnet bloom codegen cohere cohere2 cpmant ctrl cwm diffllama doge
    ernie4_5 exaone4 falcon falcon_mamba flint gemma gemma2 gemma3_text gemma4_unified_text glm glm4 gpt-sw3
    gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gptj granite granite_swa helium hrm_text hunyuan_v1_dense
    hyperclovax jais2 lfm2 llama mamba minicpm3 ministral ministral3 mistral mllama modernbert-decoder moshi mpt
    nanochat nemotron olmo olmo2 olmo3 olmo_hybrid openai-gpt opt persimmon phi phi3 phi4_multimodal qwen2 qwen3
    qwen3_5_text recurrent_gemma rwkv seed_oss smollm3 stablelm starcoder2 trocr vaultgemma xglm xlnet xlstm
"""

BOTH = """
    bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp pegasus
    pegasus_x plbart prophetnet t5 t5gemma umt5
"""

MODELS = families(ENCODERS) | families(DECODERS) | families(BOTH)
