"""Layers of transformers that torch runs as one operator, in evaluation mode and without gradients: traces have them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forge.frontends.torch import import_model  # noqa: E402
from tests.frontends.torch.test_layers_torch import normal  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

HIDDEN_PAIRS = torch.ones(5, 5, dtype=torch.bool).triu(1)
HIDDEN_KEYS = torch.tensor([[False, False, False, True, True], [False, False, False, False, True]])


class Attention(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.options = options

    def forward(self, x: Any) -> Any:
        return tuple(result for result in self.inner(x, x, x, **self.options) if result is not None)


class Encoder(torch.nn.Module):
    def __init__(self, mask: Any = None, hidden: Any = None, **options: Any) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **options)
        self.inner = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.masks = {"mask": mask, "src_key_padding_mask": hidden}

    def forward(self, x: Any) -> Any:
        return self.inner(x, **self.masks)


MODULES = {
    "attention": lambda: Attention(need_weights=False),
    "attention with weights": Attention,
    "attention with all weights": lambda: Attention(average_attn_weights=False),
    "attention of some pairs": lambda: Attention(attn_mask=HIDDEN_PAIRS),
    "attention of some keys": lambda: Attention(key_padding_mask=HIDDEN_KEYS),
    "attention of no keys": lambda: Attention(key_padding_mask=torch.tensor([[True] * 5, [False] * 5])),
    "attention of some of both": lambda: Attention(attn_mask=HIDDEN_PAIRS, key_padding_mask=HIDDEN_KEYS),
    "encoder": Encoder,
    "encoder of some pairs": lambda: Encoder(HIDDEN_PAIRS),
    "encoder of some keys": lambda: Encoder(hidden=HIDDEN_KEYS, activation="gelu"),
    "encoder, norms first": lambda: Encoder(norm_first=True, activation="gelu"),
}


@pytest.mark.parametrize("name", MODULES)
def test_traces(name: str) -> None:
    torch.manual_seed(0)
    module, x = MODULES[name]().eval(), normal(2, 5, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = torch.jit.trace(module, (x,))
        expected = [t for t in torch.utils._pytree.tree_leaves(module(x)) if t is not None]
    assert "_native_multi_head_attention" in str(trace.inlined_graph) or "_transformer_encoder_layer_fwd" in str(
        trace.inlined_graph)
    imported = import_model(trace, [("x", x)])
    for compiled in (False, True):
        found = run(imported, (x,), compiled=compiled)
        assert [difference(f, e) for f, e in zip(found, expected, strict=True)] == [""] * len(expected)
