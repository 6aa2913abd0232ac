"""What the general rules of `configs` do not reach: fields by the type of the model."""

from __future__ import annotations

from typing import Any

_SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12],
                                 "partial_rotary_factor": 0.5}}
OVERRIDES: dict[str, dict[str, Any]] = {
    "autoformer": {"prediction_length": 8, "context_length": 16},
    "informer": {"prediction_length": 8, "context_length": 16},
    "time_series_transformer": {"prediction_length": 8, "context_length": 16},
    "timm_backbone": {"backbone": "resnet18"},
    "align": {"vision_config": {"width_coefficient": 0.2, "depth_coefficient": 0.2}},
    "align_vision_model": {"width_coefficient": 0.2, "depth_coefficient": 0.2},
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
    "efficientnet": {"width_coefficient": 0.2, "depth_coefficient": 0.2},
    "glm4v": {"text_config": _SECTIONS},
    "glm4v_text": _SECTIONS,
    "glm46v": {"text_config": _SECTIONS},
    "glm_image": {"text_config": _SECTIONS},
    "glm_image_text": _SECTIONS,
    "glmga": {"text_config": _SECTIONS},
    "led": {"attention_window": 4},
    "reformer": {"is_decoder": True},
    "pix2struct_text_model": {"initializer_range": 0.02},
    "sam": {"prompt_encoder_config": {"image_size": 224, "image_embedding_size": 14}},
    "sam_hq": {"prompt_encoder_config": {"image_size": 224, "image_embedding_size": 14}},
    "zamba": {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "hybrid", "hybrid"]},
    "llama4_vision_model": {"num_attention_heads": 4},
    "xmod": {"default_language": "en_XX"},
}
