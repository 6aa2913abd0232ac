"""Overloads of Core ATen that torch's database of operators does not reach, next to torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from forge.errors import OpAttributeUnimplemented  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.cases import Call  # noqa: E402
from tests.torch_databases.compare import difference, is_free, run  # noqa: E402

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
IMAGE = torch.linspace(-1, 1, 2 * 3 * 5 * 6).sin().reshape(2, 3, 5, 6)
VOLUME = torch.linspace(-1, 1, 2 * 2 * 3 * 4 * 5).cos().reshape(2, 2, 3, 4, 5)
POINTS = torch.tensor([[0.0, 1], [2, -1], [0.5, 0.25], [3, 3]])
INTEGERS, OTHERS = torch.tensor([[5, -3, 12], [0, 7, -128]]), torch.tensor([[3, 6, -1], [2, 2, 100]])
BOOLS = torch.tensor([True, False, True])
WEIGHT = torch.linspace(-1, 1, 4 * 3 * 3 * 2).reshape(4, 3, 3, 2)
SPECTRUM = torch.fft.rfft(X)

CALLS: dict[str, tuple[Any, ...]] = {
    "_adaptive_avg_pool2d.default": (IMAGE, [2, 4]),
    "_adaptive_avg_pool3d.default": (VOLUME, [2, 3, 2]),
    "_cdist_forward.default": (POINTS, POINTS[:2] + 1, 2.0, None),
    "_embedding_bag.default": (POINTS, torch.tensor([0, 2, 3, 1]), torch.tensor([0, 1]), False, 1),
    "_fft_c2r.default": (SPECTRUM, [2], 2, 4),
    "_fft_r2c.default": (X, [1, 2], 1, True),
    "_is_all_true.default": (BOOLS,),
    "_is_any_true.default": (BOOLS,),
    "_log_softmax.default": (X, 1, False),
    "_native_batch_norm_legit.no_stats": (X, None, None, True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training.default": (X, X[0, :, 0], None, X[1, :, 0], X[1, :, 1].abs(), 0.1, 1e-5),
    "_pdist_forward.default": (POINTS, 3.0),
    "_softmax.default": (X, -1, False),
    "_to_copy.default": (X, {"dtype": torch.int32}),
    "add.Scalar": (X, 2.5, 2),
    "cross.default": (X[:, :, :3], X[:, :, 1:]),
    "alias.default": (X,),
    "bitwise_and.Scalar": (INTEGERS, 6),
    "bitwise_and.Tensor": (INTEGERS, OTHERS),
    "bitwise_not.default": (INTEGERS,),
    "bitwise_or.Scalar": (INTEGERS, -8),
    "bitwise_or.Tensor": (INTEGERS, OTHERS),
    "bitwise_xor.Scalar": (BOOLS, True),
    "bitwise_xor.Tensor": (INTEGERS, OTHERS),
    "clamp.default": (X, -1, 2.5),
    "col2im.default": (torch.linspace(0, 5, 2 * 12 * 8).reshape(2, 12, 8), [5, 6], [2, 3], [1, 1], [0, 0], [2, 1]),
    "convolution.default": (IMAGE, WEIGHT, X[0, 0], [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    "copy.default": (X, X[:1] + 1),
    "div.Scalar": (INTEGERS, 4),
    "div.Scalar_mode": (INTEGERS, 4, {"rounding_mode": "floor"}),
    "eq.Scalar": (INTEGERS, 7),
    "fmod.Scalar": (X, -0.75),
    "ge.Scalar": (X, 0.5),
    "gt.Scalar": (X, 0.5),
    "le.Scalar": (X, 0.5),
    "lt.Scalar": (X, 0.5),
    "mul.Scalar": (X, -3),
    "native_dropout.default": (X, 0.5, True),
    "ne.Scalar": (INTEGERS, 7),
    "pow.Scalar": (2.5, X),
    "randperm.default": (7,),
    "reflection_pad1d.default": (X, [2, 1]),
    "reflection_pad2d.default": (IMAGE, [2, 1, 0, 3]),
    "reflection_pad3d.default": (VOLUME, [1, 2, 0, 3, 2, 1]),
    "remainder.Scalar": (X, -0.75),
    "replication_pad2d.default": (IMAGE, [2, 1, 0, 3]),
    "replication_pad3d.default": (VOLUME, [1, 2, 0, 3, 2, 1]),
    "scatter.value": (X, 1, torch.tensor([[[2, 0, 1, 1]]]), 9.5),
    "sub.Scalar": (X, 2.5, 2),
}


def _parts(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    packet, _, overload = name.partition(".")
    arguments = CALLS[name]
    options = arguments[-1] if isinstance(arguments[-1], dict) else {}
    return getattr(getattr(torch.ops.aten, packet), overload), arguments[: len(arguments) - bool(options)], options


@pytest.mark.parametrize("name", CALLS)
def test_overloads(name: str) -> None:
    operator, arguments, options = _parts(name)
    # gradients alone read the rest of what _embedding_bag gives
    function = (lambda *a: operator(*a)[0]) if name == "_embedding_bag.default" else operator
    call = Call(function, (arguments, options))
    tensors = tuple(a for a in arguments if isinstance(a, torch.Tensor))
    exported = torch.export.export(call, tensors)
    expected = torch.utils._pytree.tree_leaves(call(*tensors))
    found = run(import_model(exported), tensors, compiled=True)
    assert [difference(f, e, is_free(exported)) for f, e in zip(found, expected, strict=True)] == [""] * len(expected)


def test_what_only_gradients_read_is_refused() -> None:
    operator, arguments, _ = _parts("_embedding_bag.default")
    exported = torch.export.export(Call(operator, (arguments, {})), arguments[:3])
    with pytest.raises(OpAttributeUnimplemented, match="results for gradients are read"):
        import_model(exported)
