"""Training steps of published models in their full sizes, from the numbers of their configurations: nothing is
downloaded. Every function takes the batch size and the length of its texts. Those of diffusion models need the package `diffusers`.

Letters: B batch, S sequence, C channels.
"""

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

Step = tuple[nn.Module, dict[str, Tensor], torch.optim.Optimizer]


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)


def causal(model_type: str, batch_size: int, sequence: int, **config) -> Step:
    """A language model that predicts the next token."""
    full = transformers.AutoConfig.for_model(model_type, use_cache=False, max_position_embeddings=sequence, **config)
    model = transformers.AutoModelForCausalLM.from_config(full)
    tokens = torch.randint(full.get_text_config().vocab_size, (batch_size, sequence))
    return model, {"input_ids": tokens, "labels": tokens.clone()}, optimizer_of(model)


def llama_3_8b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
    )
    return causal("llama", batch_size, sequence, **(sizes | config))


def llama_3_70b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64)
    return llama_3_8b(batch_size, sequence, **(sizes | config))


def mistral_7b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(vocab_size=32768, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, sliding_window=None)
    return causal("mistral", batch_size, sequence, num_attention_heads=32, num_key_value_heads=8, **(sizes | config))


def qwen_2_5_72b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=152064,
        hidden_size=8192,
        intermediate_size=29568,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
    )
    return causal("qwen2", batch_size, sequence, **(sizes | config))


def gemma_2_27b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=256000,
        hidden_size=4608,
        intermediate_size=36864,
        num_hidden_layers=46,
        num_attention_heads=32,
        num_key_value_heads=16,
        head_dim=128,
        query_pre_attn_scalar=144,
    )
    return causal("gemma2", batch_size, sequence, **(sizes | config))


def phi_4(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=100352,
        hidden_size=5120,
        intermediate_size=17920,
        num_hidden_layers=40,
        num_attention_heads=40,
        num_key_value_heads=10,
        pad_token_id=0,
        eos_token_id=0,
    )
    return causal("phi3", batch_size, sequence, **(sizes | config))


def mixtral_8x7b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=32000,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=None,
    )
    return causal("mixtral", batch_size, sequence, **(sizes | config))


def mixtral_8x22b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(hidden_size=6144, intermediate_size=16384, num_hidden_layers=56, num_attention_heads=48)
    return mixtral_8x7b(batch_size, sequence, **(sizes | config))


def qwen_3_30b_a3b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=6144,
        moe_intermediate_size=768,
        num_hidden_layers=48,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        norm_topk_prob=True,
    )
    return causal("qwen3_moe", batch_size, sequence, **(sizes | config))


def qwen_3_235b_a22b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        hidden_size=4096,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        num_hidden_layers=94,
        num_attention_heads=64,
    )
    return qwen_3_30b_a3b(batch_size, sequence, **(sizes | config))


def deepseek_v2_lite(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=102400,
        hidden_size=2048,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        num_hidden_layers=27,
        num_attention_heads=16,
        num_key_value_heads=16,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        first_k_dense_replace=1,
        q_lora_rank=None,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    )
    return causal("deepseek_v2", batch_size, sequence, **(sizes | config))


def deepseek_v2(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        hidden_size=5120,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        num_hidden_layers=60,
        num_attention_heads=128,
        num_key_value_heads=128,
        n_routed_experts=160,
        q_lora_rank=1536,
        topk_method="group_limited_greedy",
        n_group=8,
        topk_group=3,
        routed_scaling_factor=16.0,
    )
    return deepseek_v2_lite(batch_size, sequence, **(sizes | config))


def gpt_oss_20b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=201088,
        hidden_size=2880,
        intermediate_size=2880,
        num_hidden_layers=24,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=64,
        num_local_experts=32,
        num_experts_per_tok=4,
    )
    return causal("gpt_oss", batch_size, sequence, **(sizes | config))


def gpt_oss_120b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    return gpt_oss_20b(batch_size, sequence, **({"num_hidden_layers": 36, "num_local_experts": 128} | config))


def olmoe_7b(batch_size: int = 1, sequence: int = 4096, **config) -> Step:
    sizes = dict(
        vocab_size=50304,
        hidden_size=2048,
        intermediate_size=1024,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=16,
        num_experts=64,
        num_experts_per_tok=8,
    )
    return causal("olmoe", batch_size, sequence, **(sizes | config))


def t5_11b(batch_size: int = 1, sequence: int = 512, **config) -> Step:
    """T5 1.1 XXL."""
    sizes = dict(
        vocab_size=32128, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_decoder_layers=24, num_heads=64
    )
    full = transformers.T5Config(
        **(sizes | config), feed_forward_proj="gated-gelu", use_cache=False, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(full)
    texts = torch.randint(full.vocab_size, (2, batch_size, sequence))
    return model, {"input_ids": texts[0], "labels": texts[1, :, : sequence // 4].contiguous()}, optimizer_of(model)


def whisper_large(batch_size: int = 1, sequence: int = 448, **config) -> Step:
    """Whisper large v3: spectrograms of 30 seconds to text."""
    sizes = dict(
        vocab_size=51866,
        num_mel_bins=128,
        d_model=1280,
        encoder_layers=32,
        decoder_layers=32,
        encoder_attention_heads=20,
        decoder_attention_heads=20,
        encoder_ffn_dim=5120,
        decoder_ffn_dim=5120,
        max_target_positions=448,
    )
    full = transformers.WhisperConfig(**(sizes | config), use_cache=False)
    model = transformers.WhisperForConditionalGeneration(full)
    sounds = torch.randn(batch_size, full.num_mel_bins, 3000)
    labels = torch.randint(full.vocab_size, (batch_size, sequence))
    return model, {"input_features": sounds, "labels": labels}, optimizer_of(model)


def vit_22b(batch_size: int = 1, image: int = 224, **config) -> Step:
    """A vision transformer of the sizes of ViT-22B."""
    sizes = dict(hidden_size=6144, num_hidden_layers=48, num_attention_heads=48, intermediate_size=24576, patch_size=14)
    full = transformers.ViTConfig(**(sizes | config), image_size=image, num_labels=1000)
    model = transformers.ViTForImageClassification(full)
    images = torch.randn(batch_size, 3, image, image)
    labels = torch.randint(full.num_labels, (batch_size,))
    return model, {"pixel_values": images, "labels": labels}, optimizer_of(model)


class Denoising(nn.Module):
    """The step of a diffusion model: how far the noise that the transformer finds is from the noise that was added."""

    def __init__(self, transformer: nn.Module):
        super().__init__()
        self.transformer = transformer

    def forward(self, noise: Tensor, **inputs: Tensor) -> Tensor:
        found = self.transformer(**inputs, return_dict=False)[0]
        return F.mse_loss(found.float(), noise.float())


def flux_12b(batch_size: int = 1, image: int = 64, text: int = 512, **config) -> Step:
    """FLUX.1: latents of an image of 1024 pixels in patches of 2, and a text."""
    import diffusers

    model = Denoising(
        diffusers.FluxTransformer2DModel(
            **({"num_layers": 19, "num_single_layers": 38, "guidance_embeds": True} | config)
        )
    )
    sizes = model.transformer.config
    latents = torch.randn(2, batch_size, image * image, sizes.in_channels)
    batch = {
        "noise": latents[1],
        "hidden_states": latents[0],
        "encoder_hidden_states": torch.randn(batch_size, text, sizes.joint_attention_dim),
        "pooled_projections": torch.randn(batch_size, sizes.pooled_projection_dim),
        "timestep": torch.rand(batch_size),
        "guidance": torch.ones(batch_size),
        "img_ids": torch.zeros(image * image, 3),
        "txt_ids": torch.zeros(text, 3),
    }
    return model, batch, optimizer_of(model)


def stable_diffusion_3_8b(batch_size: int = 1, image: int = 128, text: int = 333, **config) -> Step:
    """Stable Diffusion 3.5 large."""
    import diffusers

    sizes = dict(num_layers=38, num_attention_heads=38, caption_projection_dim=2432, pos_embed_max_size=192)
    fixed = dict(sample_size=128, joint_attention_dim=4096, pooled_projection_dim=2048, in_channels=16, out_channels=16)
    model = Denoising(
        diffusers.SD3Transformer2DModel(**(fixed | sizes | config), qk_norm="rms_norm", attention_head_dim=64)
    )
    latents = torch.randn(2, batch_size, 16, image, image)
    batch = {
        "noise": latents[1],
        "hidden_states": latents[0],
        "encoder_hidden_states": torch.randn(batch_size, text, 4096),
        "pooled_projections": torch.randn(batch_size, 2048),
        "timestep": torch.rand(batch_size),
    }
    return model, batch, optimizer_of(model)


def pixart_sigma(batch_size: int = 1, image: int = 128, text: int = 300, **config) -> Step:
    """PixArt-Sigma for images of 1024 pixels."""
    import diffusers

    sizes = dict(
        num_layers=28, sample_size=image, out_channels=4, use_additional_conditions=False, caption_channels=4096
    )
    model = Denoising(diffusers.PixArtTransformer2DModel(**(sizes | config)))
    latents = torch.randn(2, batch_size, 4, image, image)
    batch = {
        "noise": latents[1],
        "hidden_states": latents[0],
        "encoder_hidden_states": torch.randn(batch_size, text, 4096),
        "timestep": torch.randint(1000, (batch_size,)),
    }
    return model, batch, optimizer_of(model)
