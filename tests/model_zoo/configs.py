"""Tiny configurations of transformers: the default one with fewer layers and narrower ones, by the names of its fields.

All widths of a configuration are divided by one number, so that what is a multiple of another stays one. Which number: the
first of `SIZES` with which the model runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.model_zoo.overrides import OVERRIDES

SIZES = ((16, False), (16, True), (32, False), (8, False), (8, True), (4, False), (4, True), (2, False), (1, False))
"""What widths are divided by, and whether that makes fewer heads (True) or narrower ones."""
VOCABULARY = 320
POSITIONS = 256
PATCHES = 4
"""Patches of an image, in each direction."""

WIDTH = re.compile(
    r"(^|_)(dim|dims|size|sizes|rank|ranks|channels|width|widths|features|filters|embd|inner|d_model|d_ff|d_kv|d_inner"
    r"|d_embed|d_head|pos_feats|pos_features|d_proj|d_in|planes|units|mrope_section|conv_dim)$|^n_embd$|_dim(ension)?s?$|^encoder_ffn|^decoder_ffn")
NO_WIDTH = re.compile(
    r"kernel|stride|patch|window|image|vocab|batch|chunk|pool|crop|grid|block_size|num_channels$|in_channels$|out_channels$"
    r"|video|clip_size|merge|shuffle|groups?_size|^size$|input_size|temporal|group|history|context|codebook_size|spatial|dictionary"
    r"|depthwise|input_channels|reduction|downsampl|local_|max_|num_positions|entity|type_size|position|sampling|feature_size"
    r"|downscale|output_size|bucket|input_dim$|sr_|prediction|cache|scale")
LAYERS = re.compile(
    r"(^|_)(layers|layer|depth|depths|blocks|num_stages_layers|resblocks|layer_count|n_layer|layers_per_stage|stack_layers)$"
    r"|^num_hidden|_depths?$|num_layers")
NO_LAYERS = re.compile(r"head|feature_layer|cross_attention_layers|first_k|shared|dense_layers|skip|mlp_only|hash|kv_from|nextn"
                       r"|feat_|pos_conv")
GROUPS = re.compile(r"^(num_)?groups$|^num_group_norm_groups$|norm_num_groups$")
QUERIES = re.compile(r"^num_queries$|^num_denoising$")
EXPERTS = re.compile(r"(num|n)_(\w*_)?experts$|(num|n)_routed_experts$|moe_num_experts$")
CHOSEN = re.compile(r"experts_per_tok|moe_topk|^top_?k$|(?<!index)_top_?k$|topk_experts|num_selected_experts|moe_k$|experts_topk")
HEADS = re.compile(r"heads(_\w+)?$|^n_head$|num_heads")
OF_HEAD = re.compile(r"head_dim|head_size|^d_kv$|qk_|rotary_dim")
POSITION = re.compile(r"max_(\w+_)?positions?(_embeddings)?$|^n_positions$|max_seq_len\w*$|^max_sequence_length$|max_seqlen$"
                      r"|max_target_positions|seq_length$")
TOKEN = re.compile(r"(token|start|end|begin|bos|eos|pad|mask|sep|cls)_?(token)?_(id|ids|index|indices)$|_token_id$|_token_index$")
PLACES = re.compile(r"(index|indexes|indices|indexs)$|^cross_attention_layers$|^global_attn_layers$")
DERIVED = {"stage_names", "out_features", "out_indices", "_out_features", "_out_indices", "attribute_map", "id2label",
           "label2id", "transformers_version", "_name_or_path", "architectures", "dtype"}

LENGTHS = ("num_hidden_layers", "num_layers", "n_layer")

Fields = dict[str, Any]
Size = tuple[int, bool]


def tiny(config_class: Any, size: Size) -> Any:
    """A configuration of a class, made smaller.

    Raises:
        Exception: Whatever transformers says to the fields.
    """
    name = config_class.model_type
    fields = shrunk(config_class().to_dict() if name not in WITHOUT_DEFAULT else WITHOUT_DEFAULT[name](), size)
    merge(fields, OVERRIDES.get(name, {}))
    fields.pop("model_type", None)
    return config_class(**fields)


def _pair(encoder: str, decoder: str) -> Callable[[], Fields]:
    def make() -> Fields:
        from transformers import AutoConfig

        parts = {"encoder": AutoConfig.for_model(encoder), "decoder": AutoConfig.for_model(decoder)}
        parts["decoder"].is_decoder = parts["decoder"].add_cross_attention = True
        return {name: part.to_dict() for name, part in parts.items()} | {"pad_token_id": 0, "decoder_start_token_id": 1}

    return make


WITHOUT_DEFAULT: Mapping[str, Callable[[], Fields]] = {
    "encoder-decoder": _pair("bert", "bert"),
    "vision-encoder-decoder": _pair("vit", "gpt2"),
    "speech-encoder-decoder": _pair("wav2vec2", "bert"),
}
"""Models that join two others have no default configuration."""


def merge(fields: Fields, changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(fields.get(key), dict):
            merge(fields[key], value)
        else:
            fields[key] = value


def shrunk(fields: Fields, size: Size) -> Fields:
    """The fields with smaller numbers; those of inner configurations, too."""
    kinds = next((v for k, v in fields.items() if k in ("layer_types", "layers_block_type", "block_types")
                  and isinstance(v, list) and v), None)
    places = [len(v) for k, v in fields.items() if PLACES.search(k) and _all(v, int)]
    count = max(2, *(places or [0]), len(dict.fromkeys(kinds)) if kinds and all(isinstance(k, str) for k in kinds) else 0)
    count = min(count, 8)
    staged = "depths" in fields
    old = next((v for k, v in fields.items() if k in LENGTHS and isinstance(v, int) and not staged), 0)
    kept = _first_of_each(kinds, count) if kinds and len(kinds) == old else list(range(min(count, old)))
    found: Fields = {}
    for key, value in fields.items():
        if key in DERIVED and not (staged and key == "out_features") or staged and key in LENGTHS:
            continue
        if isinstance(value, dict):
            found[key] = _inner(key, value, size, kept)
        elif isinstance(value, list) and old > count and len(value) == old:
            found[key] = [value[k] for k in kept]
        else:
            found[key] = _smaller(key, value, size, count)
    _shrink_images(found)
    return found


def _inner(key: str, value: Fields, size: Size, kept: list[int]) -> Fields:
    """A configuration, what is said of single layers, or of the embedding of positions."""
    if "model_type" in value or key.endswith("_config"):
        if value and all(str(k).isdigit() for k in value):
            return {k: shrunk(v, size) for k, v in ((kept.index(int(k)), v) for k, v in value.items() if int(k) in kept)}
        return shrunk(value, size)
    if "rope_theta" in value and value["rope_theta"] is None:
        value = {**value, "rope_theta": 10000.0}
    factor, fewer = size
    section = value.get("mrope_section")
    if section and not fewer and all(v % factor == 0 for v in section):
        return {**value, "mrope_section": [v // factor for v in section]}
    return value


def _first_of_each(kinds: list[Any], count: int) -> list[int]:
    """Places of ``count`` layers: the first of each kind, then others, in order."""
    first = list({str(kind): k for k, kind in reversed(list(enumerate(kinds)))}.values())
    return sorted([*first, *(k for k in range(len(kinds)) if k not in first)][:count])


def _all(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)


def _smaller(key: str, value: Any, size: Size, count: int) -> Any:
    factor, fewer = size
    if _all(value, int) and PLACES.search(key) and not TOKEN.search(key):
        return list(range(len(value)))[:count]
    if _all(value, int):
        return [_smaller(key, v, size, count) for v in value]
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if TOKEN.search(key):
        return value if value < VOCABULARY else VOCABULARY - 1 - value % 61
    for pattern, limit in ((QUERIES, 12), (EXPERTS, 8), (CHOSEN, 2), (POSITION, POSITIONS)):
        if pattern.search(key):
            return min(value, limit)
    if "vocab_size" in key or key == "vocab":
        return min(value, VOCABULARY)
    if LAYERS.search(key) and not NO_LAYERS.search(key):
        return min(value, count)
    if fewer and OF_HEAD.search(key):
        return value
    if fewer and HEADS.search(key):
        return value // factor if value % factor == 0 else 1 if value < factor else value
    if GROUPS.search(key) and value % 4 == 0:
        return max(value // factor, 1)
    if WIDTH.search(key) and not NO_WIDTH.search(key) and value >= 16 and value % factor == 0:
        return max(value // factor, 1)
    return value


def _shrink_images(fields: Fields) -> None:
    """Fewer patches, where nothing but patches depends on the size of images."""
    patch, size = fields.get("patch_size"), fields.get("image_size")
    if isinstance(patch, int) and isinstance(size, int):
        free = "depths" not in fields and "window_size" not in fields
        fields["image_size"] = min(size, patch * PATCHES if free else max(patch * 14, 224))
