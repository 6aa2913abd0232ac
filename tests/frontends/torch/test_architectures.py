"""Architectures of transformers with small random configurations, exported with a dynamic batch, next to torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils import _pytree as pytree  # noqa: E402

from forge.driver import compile_module  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from forge.frontends.torch.exported import array_of  # noqa: E402

Made = tuple[Any, dict[str, Any]]


def _tokens(vocabulary: int, batch: int = 2, length: int = 9) -> Any:
    return torch.randint(0, vocabulary, (batch, length))


def bert() -> Made:
    of = transformers
    config = of.BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37)
    return of.BertModel(config), {"input_ids": _tokens(99), "attention_mask": torch.ones(2, 9, dtype=torch.int64)}


def gpt2() -> Made:
    of = transformers
    config = of.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return of.GPT2LMHeadModel(config), {"input_ids": _tokens(99)}


def llama() -> Made:
    of = transformers
    config = of.LlamaConfig(vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                            num_key_value_heads=2, use_cache=False)
    return of.LlamaForCausalLM(config), {"input_ids": _tokens(99)}


def t5() -> Made:
    of = transformers
    config = of.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, use_cache=False)
    return of.T5ForConditionalGeneration(config), {"input_ids": _tokens(99), "decoder_input_ids": _tokens(99, length=5)}


def whisper() -> Made:
    of = transformers
    config = of.WhisperConfig(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                              decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=8,
                              max_source_positions=20, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                              decoder_start_token_id=1)
    return of.WhisperForConditionalGeneration(config), {"input_features": torch.randn(2, 8, 40),
                                                        "decoder_input_ids": _tokens(99, length=5)}


def vit() -> Made:
    of = transformers
    config = of.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=16,
                          patch_size=4)
    return of.ViTModel(config), {"pixel_values": torch.randn(2, 3, 16, 16)}


def swin() -> Made:
    of = transformers
    config = of.SwinConfig(image_size=32, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[2, 2], window_size=4)
    return of.SwinModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def clip() -> Made:
    of = transformers
    text = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4,
            "eos_token_id": 98, "bos_token_id": 97, "pad_token_id": 1}
    vision = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 16,
              "patch_size": 4}
    config = of.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    ids = _tokens(97)
    ids[:, -1] = 98
    return of.CLIPModel(config), {"input_ids": ids, "pixel_values": torch.randn(2, 3, 16, 16)}


def mamba() -> Made:
    of = transformers
    config = of.MambaConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=4, use_cache=False)
    return of.MambaForCausalLM(config), {"input_ids": _tokens(99)}


@pytest.mark.slow
@pytest.mark.parametrize("make", [bert, gpt2, llama, t5, whisper, vit, swin, clip, mamba])
def test_architectures(make: Callable[[], Made]) -> None:
    torch.manual_seed(0)
    network, inputs = make()
    network = network.eval()
    dynamic = {name: {0: torch.export.Dim.AUTO} for name in inputs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(network, (), inputs, dynamic_shapes=dynamic)
    run = compile_module(import_model(exported)).runtime()
    arrays = {name: array_of(tensor, name) for name, tensor in inputs.items()}
    with torch.no_grad():
        expected = pytree.tree_leaves(exported.module()(**inputs))
    got = run(*(arrays[name] for name in run.input_names))
    for found, wanted in zip(got if isinstance(got, list | tuple) else [got], expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)
