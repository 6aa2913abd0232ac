"""Layers against those of torch, whose parameters they load: sizes known and unknown, in the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge
from forge import nn
from forge.errors import OptionError
from forge.nn import layers, spec

torch = pytest.importorskip("torch")
tnn = torch.nn

LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3), lambda: tnn.Linear(5, 3), (2, 7, 5)),
    "linear_without_bias": (lambda: nn.Linear(5, 3, bias=False), lambda: tnn.Linear(5, 3, bias=False), (4, 5)),
    "conv1d": (lambda: nn.Conv1D(4, 6, 3, 2, 1), lambda: tnn.Conv1d(4, 6, 3, 2, 1), (2, 4, 11)),
    "conv1d_grouped": (
        lambda: nn.Conv1D(4, 6, 3, dilation=2, groups=2, padding="same"),
        lambda: tnn.Conv1d(4, 6, 3, dilation=2, groups=2, padding="same"), (2, 4, 11)),
    "conv2d": (lambda: nn.Conv2D(3, 8, 3, 2, 1), lambda: tnn.Conv2d(3, 8, 3, 2, 1), (2, 3, 13, 9)),
    "conv2d_depthwise": (
        lambda: nn.Conv2D(6, 6, [3, 5], 1, (1, 2), groups=6, bias=False),
        lambda: tnn.Conv2d(6, 6, (3, 5), 1, (1, 2), groups=6, bias=False), (2, 6, 9, 7)),
    "conv3d": (lambda: nn.Conv3D(2, 4, 3, 1, 1), lambda: tnn.Conv3d(2, 4, 3, 1, 1), (1, 2, 5, 6, 7)),
    "conv3d_grouped": (
        lambda: nn.Conv3D(4, 6, (1, 3, 3), groups=2), lambda: tnn.Conv3d(4, 6, (1, 3, 3), groups=2), (1, 4, 3, 6, 7)),
    "conv_transpose1d": (
        lambda: nn.ConvTranspose1D(4, 6, 4, 3, 1, 1, groups=2), lambda: tnn.ConvTranspose1d(4, 6, 4, 3, 1, 1, groups=2),
        (2, 4, 7)),
    "conv_transpose2d": (
        lambda: nn.ConvTranspose2D(4, 6, 3, 2, 1, 1), lambda: tnn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 5, 7)),
    "conv_transpose2d_grouped": (
        lambda: nn.ConvTranspose2D(4, 6, (4, 2), 2, groups=2, bias=False),
        lambda: tnn.ConvTranspose2d(4, 6, (4, 2), 2, groups=2, bias=False), (2, 4, 5, 7)),
    "conv_transpose3d": (lambda: nn.ConvTranspose3D(3, 4, 3, 2), lambda: tnn.ConvTranspose3d(3, 4, 3, 2), (1, 3, 3, 4, 5)),
    "layer_norm": (lambda: nn.LayerNorm(6), lambda: tnn.LayerNorm(6), (2, 5, 6)),
    "layer_norm_of_two_axes": (lambda: nn.LayerNorm([5, 6]), lambda: tnn.LayerNorm([5, 6]), (2, 5, 6)),
    "layer_norm_plain": (
        lambda: nn.LayerNorm(6, elementwise_affine=False), lambda: tnn.LayerNorm(6, elementwise_affine=False), (2, 5, 6)),
    "rms_norm": (lambda: nn.RMSNorm(6, -1, 1e-6, bias=False), lambda: tnn.RMSNorm(6, 1e-6), (2, 5, 6)),
    "group_norm": (lambda: nn.GroupNorm(3, 6), lambda: tnn.GroupNorm(3, 6), (2, 6, 4, 5)),
    "batch_norm1d": (lambda: nn.BatchNorm1D(6), lambda: tnn.BatchNorm1d(6), (3, 6, 5)),
    "batch_norm2d": (lambda: nn.BatchNorm2D(6), lambda: tnn.BatchNorm2d(6), (2, 6, 4, 5)),
    "batch_norm3d": (lambda: nn.BatchNorm3D(3, affine=False), lambda: tnn.BatchNorm3d(3, affine=False), (1, 3, 3, 4, 5)),
    "instance_norm": (lambda: nn.InstanceNorm(3, affine=True), lambda: tnn.InstanceNorm2d(3, affine=True), (2, 3, 5, 4)),
    "prelu": (lambda: nn.PReLU(3), lambda: tnn.PReLU(3), (2, 3, 5)),
    "relu": (nn.ReLU, tnn.ReLU, (2, 5)),
    "relu6": (nn.ReLU6, tnn.ReLU6, (2, 5)),
    "silu": (nn.SiLU, tnn.SiLU, (2, 5)),
    "gelu": (nn.GELU, tnn.GELU, (2, 5)),
    "gelu_tanh": (lambda: nn.GELU("tanh"), lambda: tnn.GELU("tanh"), (2, 5)),
    "sigmoid": (nn.Sigmoid, tnn.Sigmoid, (2, 5)),
    "tanh": (nn.Tanh, tnn.Tanh, (2, 5)),
    "hardswish": (nn.Hardswish, tnn.Hardswish, (2, 5)),
    "leaky_relu": (lambda: nn.LeakyReLU(0.2), lambda: tnn.LeakyReLU(0.2), (2, 5)),
    "softmax": (lambda: nn.Softmax(1), lambda: tnn.Softmax(1), (2, 5, 3)),
    "dropout": (nn.Dropout, tnn.Dropout, (2, 5)),
    "identity": (nn.Identity, tnn.Identity, (2, 5)),
    "flatten": (nn.Flatten, tnn.Flatten, (2, 5, 3)),
    "max_pool1d": (lambda: nn.MaxPool1D(3, 2, 1), lambda: tnn.MaxPool1d(3, 2, 1), (2, 3, 11)),
    "max_pool2d": (lambda: nn.MaxPool2D(3, 2, 1, ceil_mode=True), lambda: tnn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 3, 12, 9)),
    "max_pool3d": (lambda: nn.MaxPool3D(2), lambda: tnn.MaxPool3d(2), (1, 3, 6, 5, 4)),
    "avg_pool1d": (lambda: nn.AvgPool1D(3, 2, 1), lambda: tnn.AvgPool1d(3, 2, 1), (2, 3, 11)),
    "avg_pool2d": (
        lambda: nn.AvgPool2D(3, 2, 1, count_include_pad=False), lambda: tnn.AvgPool2d(3, 2, 1, count_include_pad=False),
        (2, 3, 12, 9)),
    "avg_pool3d": (lambda: nn.AvgPool3D(2), lambda: tnn.AvgPool3d(2), (1, 3, 6, 5, 4)),
    "adaptive_avg_pool2d": (lambda: nn.AdaptiveAvgPool2D(1), lambda: tnn.AdaptiveAvgPool2d(1), (2, 3, 5, 7)),
    "upsample": (
        lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        lambda: tnn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), (2, 3, 4, 5)),
    "lstm": (lambda: nn.LSTM(4, 3), lambda: tnn.LSTM(4, 3), (5, 2, 4)),
    "lstm_layers": (
        lambda: nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True),
        lambda: tnn.LSTM(4, 3, 2, batch_first=True, bidirectional=True), (2, 5, 4)),
    "gru": (lambda: nn.GRU(4, 3, 2, batch_first=True), lambda: tnn.GRU(4, 3, 2, batch_first=True), (2, 5, 4)),
    "gru_without_bias": (
        lambda: nn.GRU(4, 3, bias=False, bidirectional=True), lambda: tnn.GRU(4, 3, bias=False, bidirectional=True), (5, 2, 4)),
    "rnn": (lambda: nn.RNN(4, 3, nonlinearity="relu"), lambda: tnn.RNN(4, 3, nonlinearity="relu"), (5, 2, 4)),
}  # fmt: skip


def loaded(layer: nn.Module, other: Any) -> tuple[nn.Module, Any]:
    """Both layers with the same random parameters, statistics of batch normalizations included."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in other.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape) + (0.5 if name.endswith("var") else -0.5))
    layer.load_state_dict(other.state_dict())
    return layer, other.eval()


def arrays(results: Any) -> list[Any]:
    return [a for r in results for a in arrays(r)] if isinstance(results, list | tuple) else [np.asarray(results.detach())]


FIXED = {"linear": -1, "layer": -1, "rms": -1, "lstm": -1, "gru": -1, "rnn": -1}
"""The axis whose size is that of a parameter, by the first word of the name; else the channels."""


def unknown(name: str, shape: tuple[int, ...]) -> list[int | str]:
    """The shape with names for the sizes that no parameter gives."""
    fixed = FIXED.get(name.split("_")[0], 1) % len(shape)
    own = {fixed, 1} if name == "layer_norm_of_two_axes" else {fixed}
    return [size if axis in own else f"size_{axis}" for axis, size in enumerate(shape)]


@pytest.mark.parametrize("sizes", ["known", "unknown"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, sizes: str) -> None:
    make, make_other, shape = LAYERS[name]
    layer, other = loaded(make(), make_other())
    x = torch.randn(shape)
    ir = layer.export({"x": spec.Tensor(shape if sizes == "known" else unknown(name, shape), "float32")})
    expected = arrays(other(x))
    for run in (ir.get_inference_function("reference"), forge.compile(ir)):
        result = run(x.numpy())
        for own, wanted in zip(result if isinstance(result, list | tuple) else [result], expected, strict=True):
            np.testing.assert_allclose(own, wanted, rtol=2e-5, atol=2e-5)


def test_every_layer_has_a_case() -> None:
    elsewhere = {nn.Embedding, nn.Attention, nn.MultiHeadAttention, nn.Timesteps, nn.TimestepEmbedding}
    tested = {type(make()) for make, _, _ in LAYERS.values()}
    assert {getattr(layers, name) for name in layers.__all__} - tested == elsewhere


def test_embedding() -> None:
    layer, other = loaded(nn.Embedding(7, 3), tnn.Embedding(7, 3))
    x = np.array([[1, 6], [0, 3]])
    run = forge.compile(layer.export({"x": spec.Tensor(["n", 2], "int64")}))
    np.testing.assert_array_equal(run(x), other(torch.from_numpy(x)).detach())


def test_sizes_of_parameters_have_names() -> None:
    layer = nn.Linear("inputs", "outputs")
    assert str(layer.weight.shape) == "(outputs, inputs)"
    ir, _ = layer.export_tvm({"forward": {"x": spec.Tensor(["n", "inputs"], "float32")}})
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (4, 3), (4,)))
    np.testing.assert_allclose(forge.compile(ir)(x, weight, bias), x @ weight.T + bias, rtol=1e-5)


def test_linear_sums_in_another_type() -> None:
    layer = nn.Linear(64, 3, dtype="float16", out_dtype="float32")
    rng = np.random.default_rng(0)
    layer.weight.data = rng.standard_normal((3, 64)).astype(np.float16)
    assert layer.bias is not None
    layer.bias.data = rng.standard_normal(3).astype(np.float32)
    x = rng.standard_normal((2, 64)).astype(np.float16)
    result = forge.compile(layer.export({"x": spec.Tensor([2, 64], "float16")}))(x)
    assert result.dtype == np.float32
    expected = x.astype(np.float32) @ layer.weight.data.astype(np.float32).T + layer.bias.data
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sizes", [(2, 5, 7), ("batch", "length", "other")])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_multi_head_attention(sizes: tuple[Any, ...], mask: str) -> None:
    layer, other = loaded(nn.MultiHeadAttention(8, 2), tnn.MultiheadAttention(8, 2, batch_first=True))
    batch, length, second = sizes
    query, key = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
    seen = torch.rand(5, 7) > 0.3
    seen[:, 0] = True
    given: Any = {"bool": seen, "float": torch.where(seen, 0.25, -1.0)}.get(mask)
    arguments = {"query": spec.Tensor([batch, length, 8], "float32"), "key": spec.Tensor([batch, second, 8], "float32")}
    inputs = [query.numpy(), key.numpy()]
    if mask == "causal":
        arguments, inputs = {"query": arguments["query"]}, inputs[:1]
        wanted = other(query, query, query, attn_mask=tnn.Transformer.generate_square_subsequent_mask(5), is_causal=True)[0]
        causal = nn.Tensor.from_const(query.numpy())
        np.testing.assert_allclose(layer.forward(causal, is_causal=True).numpy(), wanted.detach(), rtol=2e-5, atol=2e-5)
        return
    if given is not None:
        arguments["attn_mask"] = spec.Tensor([length, second], "bool" if mask == "bool" else "float32")
        inputs.append(given.numpy())
    wanted = other(query, key, key, attn_mask=~given if mask == "bool" else given)[0]
    result = forge.compile(layer.export({"forward": arguments}))(*inputs)
    np.testing.assert_allclose(result, wanted.detach(), rtol=2e-5, atol=2e-5)


def test_multi_head_attention_of_other_sizes() -> None:
    layer, other = loaded(
        nn.MultiHeadAttention(8, 2, kdim=6, vdim=4), tnn.MultiheadAttention(8, 2, kdim=6, vdim=4, batch_first=True)
    )
    tensors = [torch.randn(2, 5, 8), torch.randn(2, 3, 6), torch.randn(2, 3, 4)]
    names = ("query", "key", "value")
    arguments = {name: spec.Tensor(tensor.shape, "float32") for name, tensor in zip(names, tensors)}
    result = forge.compile(layer.export({"forward": arguments}))(*(t.numpy() for t in tensors))
    np.testing.assert_allclose(result, other(*tensors)[0].detach(), rtol=2e-5, atol=2e-5)


def test_recurrent_layers_take_states() -> None:
    layer, other = loaded(nn.LSTM(4, 3), tnn.LSTM(4, 3))
    x, h, c = torch.randn(5, 2, 4), torch.randn(1, 2, 3), torch.randn(1, 2, 3)
    state = spec.Tensor([1, 2, 3], "float32")
    ir = layer.export({"forward": {"x": spec.Tensor([5, 2, 4], "float32"), "states": (state, state)}})
    for own, wanted in zip(forge.compile(ir)(x.numpy(), h.numpy(), c.numpy()), arrays(other(x, (h, c))), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=2e-5, atol=2e-5)


def attended(layer: nn.Attention, x: Any, context: Any) -> Any:
    """`nn.Attention` as torch computes it."""
    own = {name: torch.from_numpy(np.array(p.data)) for name, p in layer.named_parameters()}
    hidden = x
    if "group_norm.weight" in own:
        hidden = tnn.functional.group_norm(x.mT, 2, own["group_norm.weight"], own["group_norm.bias"], 1e-5).mT
    context = hidden if context is None else context
    q, k, v = (
        (y @ own[f"to_{name}.weight"].T).unflatten(-1, (2, 4)).transpose(1, 2)
        for name, y in zip("qkv", (hidden, context, context))
    )
    joined = tnn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return joined @ own["to_out.0.weight"].T + own["to_out.0.bias"]


@pytest.mark.parametrize("crosses", [False, True])
def test_attention_of_diffusion_models(crosses: bool) -> None:
    layer = nn.Attention(6, 5 if crosses else None, heads=2, dim_head=4, norm_num_groups=2)
    rng = np.random.default_rng(0)
    for parameter in layer.parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype(np.float32)
    x, context = torch.randn(2, 3, 6), torch.randn(2, 7, 5) if crosses else None
    arguments = {"hidden_states": spec.Tensor(["n", "length", 6], "float32")}
    if crosses:
        arguments["encoder_hidden_states"] = spec.Tensor(["n", "other", 5], "float32")
    run = forge.compile(layer.export({"forward": arguments}))
    result = run(*(t.numpy() for t in (x, context) if t is not None))
    np.testing.assert_allclose(result, attended(layer, x, context), rtol=1e-4, atol=1e-4)
    with pytest.raises(OptionError, match="'other'; expected no further arguments"):
        layer.forward(nn.Tensor.from_const(x.numpy()), other=1)


def test_embedding_of_steps() -> None:
    layer = nn.TimestepEmbedding(6, 8, "silu", 4, "relu", 3)
    rng = np.random.default_rng(0)
    for parameter in layer.parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype(np.float32)
    own = {name: torch.from_numpy(np.array(p.data)) for name, p in layer.named_parameters()}
    x, condition = torch.randn(2, 6), torch.randn(2, 3)
    sample = x + condition @ own["cond_proj.weight"].T
    hidden = tnn.functional.silu(sample @ own["linear_1.weight"].T + own["linear_1.bias"])
    wanted = tnn.functional.relu(hidden @ own["linear_2.weight"].T + own["linear_2.bias"])
    sizes = {"sample": spec.Tensor(["n", 6], "float32"), "condition": spec.Tensor(["n", 3], "float32")}
    result = forge.compile(layer.export({"forward": sizes}))(x.numpy(), condition.numpy())
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
    steps = np.array([0.0, 3.0, 10.0], np.float32)
    run = forge.compile(nn.Timesteps(6, True, 0).export({"x": spec.Tensor(["n"], "float32")}))
    angles = steps[:, None] * np.exp(-np.log(10000) * np.arange(3) / 3)
    np.testing.assert_allclose(run(steps), np.concatenate([np.cos(angles), np.sin(angles)], 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nn.Conv2D(3, 4, 3, groups=2), "Conv2D: in_channels: got 3; expected a multiple of groups, which is 2"),
    (lambda: nn.Conv2D(3, 4, [3, 3, 3]), r"Conv2D: kernel_size: got \[3, 3, 3\]; expected a positive number, or 2 of them"),
    (lambda: nn.GroupNorm(4, 6), "expected a multiple of num_groups, which is 4"),
    (lambda: nn.Dropout(2), "got 2; expected a share"),
    (lambda: nn.RNN(2, 2, nonlinearity="gelu"), "expected 'tanh' or 'relu'"),
    (lambda: nn.TimestepEmbedding(2, 2, "gelo"), "got 'gelo'; expected one of"),
    (lambda: nn.MultiHeadAttention(5, 2), "expected a multiple of num_heads"),
])  # fmt: skip
def test_wrong_arguments(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_wrong_tensors() -> None:
    with pytest.raises(OptionError, match=r"GRU: got .*; expected shape \(steps, batch, 4\)"):
        nn.GRU(4, 3)(nn.Tensor.from_const(np.zeros((2, 3, 5), np.float32)))
    with pytest.raises(OptionError, match=r"BatchNorm2D: got .*; expected 4 axes"):
        nn.BatchNorm2D(3)(nn.Tensor.from_const(np.zeros((2, 3, 5), np.float32)))
