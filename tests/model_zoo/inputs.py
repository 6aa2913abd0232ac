"""Inputs of a model of transformers, from the signature of its ``forward`` and its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

FORMS = ("all", "five", "least")
"""What a model is given: all that its signature names and `MAKERS` knows; the same with images of five axes; what it must."""

LENGTH, DECODED, IMAGE, FRAMES, SAMPLES = 10, 6, 64, 40, 4000
Inputs = dict[str, Any]
Maker = Callable[["Wanted"], Any]


class Wanted:
    """What is asked of a model's configuration, by the names under which it may stand."""

    def __init__(self, model: Any, form: str) -> None:
        self.model, self.form = model, form
        self.names = set(inspect.signature(model.forward).parameters)
        self.given: Inputs = {}
        mixed = {"pixel_values", "input_features", "grid_thw"} & self.names and "input_ids" in self.names
        self.batch = 1 if mixed or {"input_points", "prompt_pixel_values"} & self.names else 2

    def of(self, *names: str, default: Any = None, within: Iterable[str] = ()) -> Any:
        """The first of the fields that is set, in the configuration or in an inner one; those called ``within`` come first."""
        configs = [self.model.config]
        configs += [c for key, c in vars(self.model.config).items() if hasattr(c, "to_dict") and key not in within]
        first = [c for key in within if (c := getattr(self.model.config, key, None)) is not None]
        for config in [*first, *configs]:
            for name in names:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return default

    @property
    def vocabulary(self) -> int:
        return int(self.of("vocab_size", "vocab", default=100, within=("text_config", "decoder", "decoder_config")))

    @property
    def channels(self) -> int:
        found = self.of("num_channels", "in_channels", "in_chans", default=3, within=("vision_config", "backbone_config"))
        return found if isinstance(found, int) else 3

    def image(self) -> tuple[int, int]:
        within = ("vision_config", "backbone_config")
        size = self.of("image_size", "img_size", "input_size", "crop_size", within=within, default=IMAGE)
        if isinstance(size, list | tuple):
            return (int(size[0]), int(size[-1]))
        return (size, size) if isinstance(size, int) else (IMAGE, IMAGE)


def _tokens(w: Wanted, *shape: int) -> torch.Tensor:
    """Tokens that stand for nothing else: neither the first ones of a vocabulary nor the last ones."""
    high = max(w.vocabulary - 70, 2)
    return torch.randint(min(6, high - 1), high, shape or (w.batch, LENGTH))


def _images(w: Wanted) -> torch.Tensor:
    height, width = w.image()
    if {"image_grid_thw", "grid_thw"} & w.names:
        patch = w.of("patch_size", default=14, within=("vision_config",))
        time = w.of("temporal_patch_size", default=2 if w.form == "five" else 1, within=("vision_config",))
        return torch.randn(16, w.channels * time * patch * patch)
    if "spatial_shapes" in w.names:
        patch = w.of("patch_size", within=("vision_config",))
        return torch.randn(1, 16, w.channels * patch * patch)
    axes: tuple[int, ...] = (w.channels, height, width)
    frames = w.of("num_frames", "frames_per_clip", within=("vision_config",))
    if w.form == "five":
        axes = (frames or 1, *axes)
    return torch.randn(1 if w.batch == 1 else 2, *axes)


def _features(w: Wanted) -> torch.Tensor:
    bins = w.of("input_dim", "num_mel_bins", "input_feat_per_channel", "feature_size", "n_mels", "mel_bins", "audio_channel",
                default=80, within=("audio_config", "encoder_config"))
    positions = w.of("max_source_positions", within=("audio_config", "encoder_config"))
    if bool(positions and not w.of("input_feat_per_channel")) != (w.form == "five"):
        return torch.randn(w.batch, bins, 2 * positions if positions else FRAMES)
    return torch.randn(w.batch, FRAMES, bins)


def _mask_of(name: str) -> Maker:
    return lambda w: torch.ones(w.given[name].shape[:2], dtype=torch.long) if name in w.given else None


def _attention_mask(w: Wanted) -> Any:
    for name in ("input_ids", "input_values", "input_features", "inputs_embeds"):
        if name in w.given:
            value = w.given[name]
            axes = value.shape[:2] if name != "input_features" or value.shape[1] == FRAMES else (value.shape[0], value.shape[2])
            mask = torch.ones(axes[0], axes[-1], dtype=torch.long)
            if name == "input_ids" and w.batch > 1:
                mask[1, -2:] = 0
            return mask
    return None


def _past(w: Wanted) -> Any:
    length = int(w.of("context_length", "seq_length", default=32))
    lags = w.of("lags_sequence")
    size = w.of("input_size", "num_input_channels", default=1)
    length += max(lags) if lags else 0
    return torch.randn(2, length) if size == 1 and lags else torch.randn(2, length, size)


def _past_features(w: Wanted) -> Any:
    return torch.randn(*w.given["past_values"].shape[:2], w.of("num_time_features", default=1))


MAKERS: dict[str, Maker] = {
    "input_ids": _tokens,
    "decoder_input_ids": lambda w: _tokens(w, w.batch, DECODED),
    "pixel_values": _images,
    "hidden_states": _images,
    "image_grid_thw": lambda w: torch.tensor([[1, 4, 4]]),
    "grid_thw": lambda w: torch.tensor([[1, 4, 4]]),
    "spatial_shapes": lambda w: torch.tensor([[4, 4]]),
    "pixel_attention_mask": lambda w: _pixel_mask(w),
    "image_sizes": lambda w: torch.tensor([list(w.image())]) if "pixel_values" in w.given else None,
    "target_sizes": lambda w: torch.tensor([[4, 4]]),
    "input_features": _features,
    "image": _images,
    "sample": _images,
    "input_features_mask": lambda w: _features_mask(w.given["input_features"]) if "input_features" in w.given else None,
    "latents": lambda w: torch.randn(2, w.of("hidden_size", "codebook_dim", default=8), 12),
    "qformer_input_ids": _tokens,
    "qformer_attention_mask": lambda w: torch.ones(w.batch, LENGTH, dtype=torch.long),
    "flattened_patches": lambda w: torch.cat([torch.arange(1.0, 9.0).reshape(1, 8, 1).expand(2, 8, 2), torch.randn(
        2, 8, w.of("patch_embed_hidden_size", default=768))], -1),
    "merge_sizes": lambda w: torch.tensor([2]),
    "past_values": _past,
    "past_values_padding": lambda w: torch.zeros(2, w.given["past_values"].shape[1], dtype=torch.long),
    "freq": lambda w: torch.zeros(2, dtype=torch.long),
    "input_values": lambda w: _waves(w),
    "attention_mask": _attention_mask,
    "bbox": lambda w: _boxes(w),
    "past_time_features": _past_features,
    "past_observed_mask": lambda w: torch.ones_like(w.given["past_values"]),
    "input_points": lambda w: torch.rand(1, 1, 2, 2) * 60,
    "input_labels": lambda w: torch.ones(1, 1, 2, dtype=torch.long),
}
"""By the name of the input, in the order in which they are made; None: leave it out."""


def _pixel_mask(w: Wanted) -> Any:
    images = w.given.get("pixel_values")
    if images is None:
        return None
    return torch.ones(images.shape[:2], dtype=torch.long) if "spatial_shapes" in w.names else torch.ones(
        *images.shape[:-3], *images.shape[-2:], dtype=torch.bool)


def _waves(w: Wanted) -> torch.Tensor:
    bins, length = w.of("num_mel_bins"), w.of("max_length")
    if bins and length and w.of("frequency_stride"):
        return torch.randn(2, length, bins)
    coder = w.of("audio_channels", "hop_length", "upsampling_ratios", "encoder_hidden_size") and not w.of("feat_extract_norm")
    return torch.randn(2, 1, SAMPLES) if bool(coder) != (w.form == "five") else torch.randn(2, SAMPLES)


def _boxes(w: Wanted) -> torch.Tensor:
    corner = torch.randint(0, 50, (w.batch, LENGTH, 2))
    return torch.cat([corner, corner + torch.randint(1, 50, (w.batch, LENGTH, 2))], -1)


def make(model: Any, form: str) -> Inputs:
    """Inputs by name.

    Raises:
        Exception: Whatever the model says where it is asked for the number of its tokens of images.
    """
    torch.manual_seed(1)
    w = Wanted(model, form)
    signature = inspect.signature(model.forward).parameters
    must = {n for n, p in signature.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    must |= {model.main_input_name, "flattened_patches"} & set(signature)
    must |= {"decoder_input_ids", "attention_mask", "past_time_features"} & set(signature)
    if "input_ids" in signature and form == "least" and "input_ids" not in must:
        must.add("input_ids")
    for name, maker in MAKERS.items():
        if name in signature and (form != "least" or name in must) and (value := maker(w)) is not None:
            w.given[name] = value
    if "input_ids" in w.given:
        _stand_ins(w)
    return w.given


MODALITIES = {
    "get_image_features": ("image_token_id", "image_token_index", "img_token_id", "image_patch_id", "im_patch_id"),
    "get_audio_features": ("audio_token_id", "audio_token_index"),
}


def _stand_ins(w: Wanted) -> None:
    """Puts as many tokens that stand for an image, or for sound, into the text as the model makes of it."""
    parts = []
    for method, fields in MODALITIES.items():
        token = next((t for f in fields if isinstance(t := getattr(w.model.config, f, None), int)), None)
        read = getattr(w.model, method, None)
        if read is None or token is None:
            continue
        names = inspect.signature(read).parameters
        given = {n: v for n, v in w.given.items() if n in names and n not in ("input_ids", "attention_mask")}
        if "input_features_mask" in names and "input_features" in given:
            given["input_features_mask"] = w.given["input_features_mask"] = _features_mask(given["input_features"])
        if given:
            with torch.no_grad():
                parts.append(torch.full((1, _count(read(**given))), token))
    if not parts:
        if "mm_token_type_ids" in w.names:
            w.given["mm_token_type_ids"] = torch.zeros_like(w.given["input_ids"])
        return
    ids = _tokens(w, 1, LENGTH)
    w.given["input_ids"] = torch.cat([ids[:, :4], *parts, ids[:, 4:]], 1)
    if "attention_mask" in w.given:
        w.given["attention_mask"] = torch.ones_like(w.given["input_ids"])
    if "mm_token_type_ids" in w.names:
        w.given["mm_token_type_ids"] = (w.given["input_ids"] == parts[0][0, 0]).long()


def _features_mask(features: torch.Tensor) -> torch.Tensor:
    batch, *axes = features.shape
    return torch.ones(batch, axes[0] if axes[0] == FRAMES else axes[-1], dtype=torch.long)


def _count(features: Any) -> int:
    found = getattr(features, "pooler_output", None)
    found = found if found is not None else features
    if isinstance(found, Mapping):
        found = found["last_hidden_state"]
    parts = found if isinstance(found, list | tuple) else [found]
    return sum(p.numel() // p.shape[-1] for p in parts)
