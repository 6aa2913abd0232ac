"""Layers of torch next to eager torch: attention, recurrent layers, sizes that are known at run time, forms that fuse well."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.cases import Call  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

F = torch.nn.functional
Dim = torch.export.Dim


def check(module: torch.nn.Module, inputs: tuple[Any, ...], others: tuple[tuple[Any, ...], ...] = (), shapes: Any = None) -> Any:
    """The module of the IR, after its results were compared with torch's for ``inputs`` and, of other sizes, ``others``."""
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
    ir = import_model(exported)
    for case in (inputs, *others):
        expected = torch.utils._pytree.tree_leaves(module(*case))
        for compiled in (False, True):
            found = run(ir, case, compiled=compiled)
            assert [difference(f, e) for f, e in zip(found, expected, strict=True)] == [""] * len(expected)
    return ir


def operators(ir: Any) -> list[str]:
    return [node.op for node in ir.main.nodes if node.op != "constant"]


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


HIDDEN = torch.ones(5, 7, dtype=torch.bool).tril()
HIDDEN[2] = False


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {}),
        (((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"is_causal": True, "scale": 0.3}),
        (((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"attn_mask": HIDDEN}),
        (((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"attn_mask": torch.where(HIDDEN, 0.5, -torch.inf)}),
        (((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"attn_mask": HIDDEN.expand(2, 1, 5, 7)}),
        (((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), {"enable_gqa": True}),
        (((2, 3, 5, 4), (1, 1, 7, 4), (2, 3, 7, 6)), {}),
        (((3, 5, 4), (3, 7, 4), (3, 7, 6)), {"attn_mask": HIDDEN}),
        (((3, 5, 4), (3, 7, 4), (3, 7, 6)), {"attn_mask": normal(3, 5, 7)}),
        (((5, 4), (7, 4), (7, 6)), {"is_causal": True}),
        (((2, 2, 3, 5, 4), (2, 2, 3, 7, 4), (2, 2, 3, 7, 6)), {"attn_mask": normal(2, 1, 1, 5, 7)}),
    ],
)
def test_attention(shapes: Any, options: dict[str, Any]) -> None:
    operands = tuple(normal(*shape) for shape in shapes)
    mask = options.get("attn_mask")
    given = (*operands, mask) if mask is not None else operands
    rest = {name: value for name, value in options.items() if name != "attn_mask"}
    ir = check(Call(F.scaled_dot_product_attention, (given, rest)), given)
    assert "nn.attention" in operators(ir)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("options", [{"scale": 2.0}, {"is_causal": True}])
def test_attention_in_half_precision(dtype: Any, options: dict[str, Any]) -> None:
    """Scores are kept in float32, as torch keeps them: large ones, rounded, would change the probabilities visibly."""
    operands = tuple(normal(2, 3, length, 32).to(dtype) for length in (31, 64, 64))
    check(Call(F.scaled_dot_product_attention, (operands, options)), operands)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent(kind: str, batch_first: bool) -> None:
    """The batch is known at run time; torch fixes the length."""
    layer = getattr(torch.nn, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=batch_first)
    shapes = ((2, 5, 3), (4, 5, 3)) if batch_first else ((5, 2, 3), (5, 4, 3))
    ir = check(layer, (normal(*shapes[0]),), ((normal(*shapes[1]),),), ({0 if batch_first else 1: Dim("b", max=8)},))
    assert operators(ir).count(f"nn.{kind.lower()}") == 2


def test_projected_lstm() -> None:
    check(torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2), (normal(5, 3, 3),))


class Convolutional(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding="same", groups=8)
        self.pool = torch.nn.MaxPool2d(2)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.group = torch.nn.GroupNorm(2, 4)

    def forward(self, x: Any) -> Any:
        y = F.relu6(self.norm(self.first(x)))
        y = F.interpolate(self.pool(F.silu(self.second(y))), scale_factor=2, mode="nearest")
        return F.adaptive_avg_pool2d(self.group(self.up(y)), 1).flatten(1)


def test_convolutions_of_symbolic_sizes() -> None:
    sizes = {0: Dim("b", max=16), 2: Dim("h", min=8, max=64), 3: Dim("w", min=8, max=64)}
    ir = check(Convolutional(), (normal(2, 3, 16, 12),), ((normal(1, 3, 25, 19),),), (sizes,))
    assert not {"transpose", "broadcast_to"} & set(operators(ir))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing_of_symbolic_sizes(mode: str) -> None:
    class Resize(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return F.interpolate(x, size=(x.shape[2] * 2 + 1, x.shape[3] // 2), mode=mode) * 2

    sizes = {2: Dim("h", min=4, max=64), 3: Dim("w", min=4, max=64)}
    check(Resize(), (normal(2, 3, 6, 10),), ((normal(2, 3, 9, 13),),), (sizes,))


def test_linear_has_no_transpose() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
    sizes = ({0: Dim("b"), 1: Dim("t")},)
    ir = check(model, (normal(2, 5, 6),), ((normal(3, 4, 6),),), sizes)
    assert operators(ir) == ["nn.dense", "add", "nn.gelu", "nn.layer_norm", "nn.dense", "add"]


def test_unread_results_are_not_computed() -> None:
    class Norm(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.aten.native_layer_norm(x, [4], None, None, 1e-5)[0]

    assert operators(check(Norm(), (normal(3, 4),))) == ["nn.layer_norm"]


ATEN = torch.ops.aten


def _norm_gradients() -> list[Any]:
    x, y = normal(2, 3, 4), normal(2, 6, 5)
    layer = ATEN.native_layer_norm(x, [3, 4], None, None, 1e-5)
    group = ATEN.native_group_norm(y, None, None, 2, 6, 5, 3, 1e-5)
    weight, grad = normal(3, 4), normal(2, 6, 5) * 2
    return [
        (ATEN.native_layer_norm_backward, (x + 1, x, [3, 4], layer[1], layer[2], weight, weight, [True] * 3)),
        (ATEN.native_group_norm_backward, (grad, y, group[1], group[2], normal(6), 2, 6, 5, 3, [True] * 3)),
    ]


def _pool_gradients() -> list[Any]:
    x = normal(2, 3, 8, 9)
    largest, places = ATEN.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    found = [
        (ATEN.max_pool2d_with_indices_backward, (largest, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)),
        (ATEN._adaptive_avg_pool2d_backward, (normal(2, 3, 4, 3), x)),
    ]
    for include, divisor in ((True, None), (False, None), (True, 5)):
        rest = ([3, 2], [2, 3], [1, 0], False, include, divisor)
        found.append((ATEN.avg_pool2d_backward, (ATEN.avg_pool2d(x, *rest), x, *rest)))
    return found


def _convolution_gradients() -> list[Any]:
    found = []
    for groups, stride, padding, dilation in ((1, 1, 0, 1), (1, 2, 1, 1), (3, 2, 1, 2), (1, 3, 2, 1)):
        x, weight = normal(2, 6, 11, 9), normal(3, 6 // groups, 3, 2)
        grad = F.conv2d(x, weight, None, stride, padding, dilation, groups)
        pairs = ([stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0], groups, [True] * 3)
        found.append((ATEN.convolution_backward, (grad, x, weight, [3], *pairs)))
    return found


EMBEDDING = (ATEN.embedding_dense_backward, (normal(2, 3, 4), torch.tensor([[0, 1, 1], [4, 2, 2]]), 5, 2, False))


@pytest.mark.parametrize(
    ("operator", "arguments"), [*_norm_gradients(), *_pool_gradients(), *_convolution_gradients(), EMBEDDING],
    ids=lambda v: str(v) if callable(v) else "",
)
def test_gradients(operator: Any, arguments: tuple[Any, ...]) -> None:
    check(Call(operator.default, (arguments, {})), tuple(a for a in arguments if isinstance(a, torch.Tensor)))


RESIZING = [
    (name, rank, align) for name, rank in (
        ("upsample_nearest1d", 1), ("upsample_nearest2d", 2), ("upsample_nearest3d", 3), ("_upsample_nearest_exact2d", 2),
        ("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3), ("upsample_bicubic2d", 2),
        ("_upsample_bilinear2d_aa", 2), ("_upsample_bicubic2d_aa", 2),
    ) for align in ((None,) if "nearest" in name else (False, True))
]


@pytest.mark.parametrize(
    ("size", "scale"), [((3, 20, 2), None), ((6, 7, 9), None), ((6, 7, 9), 1.1), ((7, 9, 11), 1.3), ((4, 5, 7), 0.8)]
)
@pytest.mark.parametrize(("name", "rank", "align"), RESIZING)
def test_resizing_by_scales_that_are_not_those_of_the_sizes(
    name: str, rank: int, align: bool | None, size: tuple[int, ...], scale: float | None
) -> None:
    """From (6, 7, 9): where no size changes, some operators copy and others do not."""
    x = normal(1, 2, *(6, 7, 9)[:rank])
    arguments = (x, list(size[:rank]), *(() if align is None else (align,)), *[scale] * rank)
    call = Call(getattr(ATEN, name).default, (arguments, {}))
    found = run(import_model(torch.export.export(call, (x,))), (x,), compiled=False)
    assert difference(found[0], call(x)) == ""


def test_products_of_groups_of_rows() -> None:
    class Grouped(torch.nn.Module):
        def forward(self, x: Any, w: Any, ends: Any) -> Any:
            return torch._grouped_mm(x, w, ends)

    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    x, w = normal(6, 8).bfloat16(), normal(3, 8, 16).bfloat16()
    check(Grouped(), (x, w, ends), ((x, w, torch.tensor([0, 5, 6], dtype=torch.int32)),))


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
def test_a_layer_of_experts(experts: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    configuration = transformers.MixtralConfig(
        vocab_size=50, hidden_size=32, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=5, num_experts_per_tok=2, use_cache=False, experts_implementation=experts)
    model = transformers.MixtralModel._from_config(configuration)

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any) -> Any:
            return self.model(tokens).last_hidden_state

    tokens = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        check(Hidden(), (tokens,))


def test_functions_over_a_batch() -> None:
    class Mapped(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.vmap(lambda a, b: a.sum() * b, in_dims=(0, None))(x, y)

    check(Mapped(), (normal(3, 4), normal(5)))
