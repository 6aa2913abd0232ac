"""A language model for ``benchmarks.decode``: a Llama of transformers with seeded weights, exported with its cache.

``build(name)`` gives the path of an export, which ``transformers.exporters`` has written once, in the cache folder: "prefill",
"decode" (one token after a cache of any length), "any" (any number of tokens after any cache), "fused" (one token, in
onnxruntime's own operators, with GroupQueryAttention), "openvino" (with its cache as state).
"""

from __future__ import annotations

import importlib.metadata
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.models import cache_folder, quiet_exporter

KEYS = "input.past_key_values.layers.{layer}.{kind}"
"""Names of the cache in the exports."""


@dataclass(frozen=True)
class Size:
    """Of a decoder. ``positions``: the longest sequence that it knows."""

    layers: int
    width: int
    hidden: int
    heads: int
    shared_heads: int
    vocabulary: int
    positions: int = 4096

    def cache(self, length: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Random keys and values of ``length`` tokens by name; equal arguments give equal arrays."""
        rng = np.random.default_rng(seed)
        shape = (1, self.shared_heads, length, self.width // self.heads)
        names = [KEYS.format(layer=layer, kind=kind) for layer in range(self.layers) for kind in ("keys", "values")]
        return {name: rng.standard_normal(shape, dtype=np.float32) for name in names}

    def cache_bytes(self, length: int) -> int:
        return 4 * 2 * self.layers * self.shared_heads * (self.width // self.heads) * length


FULL = Size(layers=12, width=768, hidden=2048, heads=12, shared_heads=4, vocabulary=32000)
"""125 million parameters."""
SMALL = Size(layers=2, width=64, hidden=128, heads=4, shared_heads=2, vocabulary=97)


def size(small: bool) -> Size:
    return SMALL if small else FULL


def network(small: bool) -> Any:
    """The torch model, in evaluation mode."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    of = size(small)
    config = LlamaConfig(
        vocab_size=of.vocabulary, hidden_size=of.width, intermediate_size=of.hidden, num_hidden_layers=of.layers,
        num_attention_heads=of.heads, num_key_value_heads=of.shared_heads, max_position_embeddings=of.positions)
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


EXAMPLES: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"prefill": (2, 6, 0), "decode": (1, 1, 5), "any": (2, 3, 5), "fused": (1, 1, 5), "openvino": (2, 3, 5)})
"""Rows, tokens and length of the cache of the inputs by export: an exporter takes extents of 1 for constants, others vary."""


def build(name: str, small: bool = False) -> Path:
    """Exports one of `EXAMPLES`, unless that was done before, and returns the path of the file; weights lie next to it."""
    versions = "-".join(importlib.metadata.version(package) for package in ("transformers", "torch"))
    folder = cache_folder() / f"decoder-{'small' if small else 'full'}-{versions}" / name
    file = "openvino.xml" if name == "openvino" else f"{name}.onnx"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made, quiet_exporter():
            (unfinished := Path(made) / name).mkdir()
            _export(network(small), name, unfinished / file)
            os.rename(unfinished, folder)
    return folder / file


def _export(model: Any, name: str, path: Path) -> None:
    from transformers.exporters import OnnxConfig, OnnxExporter, OpenVINOConfig, OpenVINOExporter

    example = _example(model, *EXAMPLES[name])
    if name == "openvino":
        openvino = OpenVINOExporter()
        openvino.save_program(openvino.export(model, example, config=OpenVINOConfig(dynamic=True)).program, path)
        return
    onnx = OnnxExporter()
    fusions = "cpu" if name == "fused" else None
    onnx.save_program(onnx.export(model, example, config=OnnxConfig(dynamic=True, ort_fusions=fusions)).program, path)


def _example(model: Any, batch: int, tokens: int, past: int) -> dict[str, Any]:
    import torch
    from transformers import DynamicCache

    example: dict[str, Any] = {
        "input_ids": torch.ones((batch, tokens), dtype=torch.int64),
        "attention_mask": torch.ones((batch, past + tokens), dtype=torch.int64),
    }
    if past:
        example["past_key_values"] = DynamicCache(config=model.config)
        with torch.no_grad():
            model(torch.ones((batch, past), dtype=torch.int64), past_key_values=example["past_key_values"], use_cache=True)
    return example
