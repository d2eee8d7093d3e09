"""How small a configuration of transformers becomes."""

from __future__ import annotations

from typing import Any

# Small values for the sizes of a configuration, by name. Names that a configuration lacks are left out.
SIZES: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("projection_dim", "word_embed_proj_dim", "hidden_dim", "decoder_hidden_size"), 32),
    **dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "output_hidden_size", "encoder_hidden_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "n_inner"), 64),
    **dict.fromkeys(("d_inner", "ffn_hidden_size", "decoder_intermediate_size", "moe_intermediate_size"), 64),
    **dict.fromkeys(("shared_expert_intermediate_size", "feed_forward_hidden_size"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "decoder_num_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size"), 8),
    **dict.fromkeys(("vocab_size", "decoder_vocab_size", "text_vocab_size"), 100),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions"), 64),
    **dict.fromkeys(("max_target_positions", "seq_length"), 64),
    **dict.fromkeys(("pad_token_id", "decoder_start_token_id"), 0),
    **dict.fromkeys(("bos_token_id", "cls_token_id"), 1),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 2),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    "image_size": 32,
    "patch_size": 8,
    "num_mel_bins": 16,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "conv_dim": [32] * 7,
    "use_cache": False,
}
# The configurations of a model's parts.
PARTS = ("text_config", "vision_config", "encoder", "decoder", "audio_config")
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
BACKBONE = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
    "out_features": ["stage1", "stage2"],
}  # fmt: skip
DETECTOR = {"use_timm_backbone": False, "backbone": None, "backbone_config": BACKBONE, "num_queries": 4}
# Where the common table does not fit a configuration.
OWN: dict[str, dict[str, Any]] = {
    "GPTNeoConfig": {"attention_types": [[["global", "local"], 1]]},
    "WhisperConfig": {"max_source_positions": 16},
    "Speech2TextConfig": {"conv_channels": 32, "input_feat_per_channel": 16},
    "FunnelConfig": {"block_sizes": [1, 1], "d_head": 8},
    "SwinConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "Swinv2Config": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "Swin2SRConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 1},
    "DonutSwinConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "MaskFormerSwinConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2, "patch_size": 4},
    "DinatConfig": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2]},
    "ConvNextConfig": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    "ConvNextV2Config": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    "ResNetConfig": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "RegNetConfig": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 8},
    "BitConfig": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "num_groups": 4},
    "SegformerConfig": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
        "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [2, 2], "mlp_ratios": [2, 2],
    },
    "GLPNConfig": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
        "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [2, 2], "mlp_ratios": [2, 2],
    },
    "PvtConfig": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sequence_reduction_ratios": [2, 1], "hidden_sizes": [16, 32],
        "patch_sizes": [4, 2], "strides": [4, 2], "num_attention_heads": [2, 2], "mlp_ratios": [2, 2],
    },
    "PvtV2Config": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
        "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [2, 2], "mlp_ratios": [2, 2],
        "layer_norm_eps": 1e-6,
    },
    "PoolFormerConfig": {
        "num_encoder_blocks": 2, "depths": [1, 1], "hidden_sizes": [16, 32], "patch_sizes": [7, 3],
        "strides": [4, 2], "padding": [2, 1],
    },
    "FocalNetConfig": {
        "embed_dim": 16, "depths": [1, 1], "focal_levels": [1, 1], "focal_windows": [3, 3], "patch_size": 4,
    },
    "CvtConfig": {"embed_dim": [16, 32, 32], "num_heads": [1, 2, 2], "depth": [1, 1, 1]},
    "MobileViTConfig": {"image_size": 64, "patch_size": 2},
    "MobileViTV2Config": {"image_size": 64, "patch_size": 2},
    "HieraConfig": {"embed_dim": 8, "image_size": [64, 64], "patch_size": [7, 7]},
    "DPTConfig": {"backbone_out_indices": [0, 1, 1, 1], "neck_hidden_sizes": [8, 8, 8, 8]},
    "ReformerConfig": {"attn_layers": ["local", "local"], "axial_pos_embds": False, "is_decoder": False},
    "LongformerConfig": {"attention_window": 4},
    "LEDConfig": {"attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "XLNetConfig": {"d_head": 8},
    "CodeGenConfig": {"rotary_dim": 4},
    "GPTJConfig": {"rotary_dim": 4},
    "BloomConfig": {"n_head": 4},
    "FalconConfig": {"num_kv_heads": 4},
    "MptConfig": {"n_heads": 4},
    "MambaConfig": {"state_size": 4, "expand": 2, "intermediate_size": 64},
    "Mamba2Config": {"num_heads": 8, "head_dim": 8, "state_size": 4, "n_groups": 1, "chunk_size": 4},
    "RwkvConfig": {"attention_hidden_size": 32},
    "ViTMAEConfig": {"decoder_hidden_size": 32, "mask_ratio": 0.5},
    "VitDetConfig": {"window_block_indices": [0], "residual_block_indices": [], "window_size": 2},
    "MobileBertConfig": {"intra_bottleneck_size": 16, "true_hidden_size": 16, "embedding_size": 16},
    "CanineConfig": {"num_hash_buckets": 16, "local_transformer_stride": 8, "downsampling_rate": 2},
    "TapasConfig": {"type_vocab_sizes": [3, 16, 16, 2, 16, 16, 10]},
    "PerceiverConfig": {"num_latents": 4, "d_latents": 16, "d_model": 8, "num_self_attends_per_block": 2},
    "DeepseekV2Config": LATENT,
    "DeepseekV3Config": {**LATENT, "n_group": 2, "topk_group": 1},
    "MiniCPM3Config": LATENT,
    "TimeSeriesTransformerConfig": {"prediction_length": 4, "context_length": 8},
    "LlavaConfig": {"image_token_id": 99},
    "PaliGemmaConfig": {"image_token_id": 99},
    "Idefics3Config": {"image_token_id": 99, "scale_factor": 2},
    "InternVLConfig": {"image_token_id": 99},
    "InternVLVisionConfig": {"image_size": [32, 32], "patch_size": [8, 8]},
    "Qwen2VLConfig": {"image_token_id": 99, "video_token_id": 98, "vision_start_token_id": 97},
    "Qwen2VLTextConfig": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}},
    "Qwen2VLVisionConfig": {"embed_dim": 32, "hidden_size": 32, "patch_size": 8, "depth": 2, "num_heads": 4},
    "LayoutLMv3Config": {"coordinate_size": 4, "shape_size": 8, "input_size": 32},
    "LiltConfig": {"hidden_size": 48},
    "BrosConfig": {"hidden_size": 64},
    "Kosmos2Config": {"latent_query_num": 3},
    "EncodecConfig": {"num_filters": 4, "upsampling_ratios": [4, 2], "codebook_size": 16, "hidden_size": 16},
    "DacConfig": {"encoder_hidden_size": 8, "decoder_hidden_size": 16, "downsampling_ratios": [2, 2]},
    "Wav2Vec2BertConfig": {"feature_projection_input_dim": 16},
    "DetrConfig": DETECTOR,
    "DeformableDetrConfig": {**DETECTOR, "num_feature_levels": 2},
    "VideoMAEConfig": {"num_frames": 4},
    "TimesformerConfig": {"num_frames": 4},
    "VivitConfig": {"num_frames": 4, "tubelet_size": [2, 8, 8]},
    "BambaConfig": {
        "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_n_groups": 1, "mamba_chunk_size": 4,
    },
}  # fmt: skip
# Attributes that a configuration has but does not allow to be set.
LEFT_ALONE: dict[str, set[str]] = {
    "FunnelConfig": {"num_hidden_layers"},
    "XLNetConfig": {"max_position_embeddings"},
    "EfficientNetConfig": {"hidden_dim"},
    "DeepseekV2Config": {"num_key_value_heads"},
    "DeepseekV3Config": {"num_key_value_heads"},
}
