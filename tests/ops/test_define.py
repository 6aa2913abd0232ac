"""Operators that users define: meaning, types, text, symbolic sizes, fusion, compilation, mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import te
from forge.driver import cache, compile_module
from forge.errors import OptionError, ParseError
from forge.ir.op import REGISTRY, Accuracy
from forge.ir.printer import print_module
from forge.ops.core import define
from forge.ops.core.define import define_operator
from forge.te import Expr, Tensor

A = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((2, 7)).astype(np.float32)


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for name in define._DEFINED:
        REGISTRY.pop(name, None)
    define._DEFINED.clear()


def selu(**options: Any) -> None:
    define_operator(
        "acme.selu", lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
        element=lambda x, *, alpha: te.select(x > 0.0, x, te.call("expm1", x) * alpha),
        attributes={"alpha": 1.5}, accepts="float", **options)


def rotate() -> None:
    def lower(x: Tensor, *, by: int) -> Tensor:
        return te.compute(x.shape, lambda *i: x[(*i[:-1], (i[-1] + by) % x.shape[-1])])

    define_operator(
        "acme.rotate", lambda x, *, by: np.roll(x, -by, axis=-1), lower=lower, attributes={"by": int}, kind="injective")


def check(text: str, *inputs: np.ndarray, tolerance: float = 1e-6) -> forge.IRModule:
    """The text's module, whose compiled results agree with the interpreter's, with types of the same shape."""
    ir = forge.IRModule(text)
    expected = ir.get_inference_function("reference")(*inputs)
    for level in (0, 3):
        with forge.PassContext(level):
            got = ir.get_inference_function()(*inputs)
        for ours, theirs in zip(got, expected) if isinstance(expected, list) else [(got, expected)]:
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    return ir


def test_an_element_wise_operator() -> None:
    selu()
    for x in (A, B):
        ir = check("def @main(%x: Tensor[(n, m), float32]) { acme.selu(%x, alpha=2f) }", x)
        np.testing.assert_allclose(ir.get_inference_function()(x), np.where(x > 0, x, 2 * np.expm1(x)), rtol=1e-5)
    assert ir.operators == {"acme.selu": 1}
    assert forge.IRModule(str(ir.mod)) == ir


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_element_types(dtype: str) -> None:
    selu()
    from forge import dtypes

    x = A.astype(dtypes.numpy_dtype(dtype))
    ir = forge.IRModule(f"def @main(%x: Tensor[(n, m), {dtype}]) {{ acme.selu(%x) }}")
    got, expected = ir.get_inference_function()(x), ir.get_inference_function("reference")(x)
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=1e-2 if dtype == "bfloat16" else 1e-3)
    with pytest.raises(ParseError, match="operand 'data' has the wrong element type; got int8; expected float"):
        forge.IRModule("def @main(%x: Tensor[(n), int8]) { acme.selu(%x) }")


def test_several_operands_broadcast() -> None:
    define_operator("acme.blend", lambda a, b, *, t: a + t * (b - a), element=lambda a, b, *, t: a + (b - a) * t,
                    operands=("a", "b"), attributes={"t": 0.25})
    check("def @main(%a: Tensor[(n, 5), float32], %b: Tensor[(5), float32]) { acme.blend(%a, %b) }", A, A[0])
    with pytest.raises(ParseError, match="shapes do not broadcast"):
        forge.IRModule("def @main(%a: Tensor[(n, 5), float32], %b: Tensor[(4), float32]) { acme.blend(%a, %b) }")


def test_a_predicate_has_bools() -> None:
    define_operator("acme.near", lambda x, *, limit: np.abs(x) < limit,
                    element=lambda x, *, limit: te.call("abs", x) < limit, attributes={"limit": 1.0})
    ir = check("def @main(%x: Tensor[(n, m), float32]) { acme.near(%x) }", A)
    assert ir.output_dtypes == ["bool"]
    assert check("def @main(%x: Tensor[(n, m), float16]) { acme.near(%x) }", A.astype(np.float16)).output_dtypes == ["bool"]


def test_an_operator_on_integers_only() -> None:
    define_operator("acme.low_bits", lambda x, *, mask: x & mask, element=lambda x, *, mask: x & mask,
                    attributes={"mask": 3}, accepts="integer")
    check("def @main(%x: Tensor[(n), int32]) { acme.low_bits(%x, mask=5) }", np.arange(9, dtype=np.int32))


def test_an_injective_operator_fuses_in_front() -> None:
    rotate()
    ir = check("def @main(%x: Tensor[(n, m), float32]) { %0 = acme.rotate(%x, by=2); exp(%0) }", A)
    assert compile_module(ir.mod).summary["groups"] == 1
    np.testing.assert_allclose(ir.get_inference_function()(B), np.exp(np.roll(B, -2, axis=-1)), rtol=1e-6)


def test_sizes_of_results_come_from_the_lowering() -> None:
    def lower(x: Tensor, *, size: int) -> Tensor:
        count = x.shape[1] // size
        part = te.reduce_axis(size)
        return te.compute((x.shape[0], count), lambda i, j: te.reduce("sum", x[i, j * size + part.var], [part]))

    define_operator(
        "acme.block_sums", lambda x, *, size: x[:, : x.shape[1] // size * size].reshape(len(x), -1, size).sum(-1), lower=lower,
        attributes={"size": 2}, kind="reduction", accuracy=Accuracy.ACCUMULATING)
    ir = check("def @main(%x: Tensor[(n, m), float32]) { %0 = acme.block_sums(%x); nn.relu(%0) }", A)
    assert [str(d) for d in ir.output_shapes[0]] == ["n", "(m // 2)"]
    assert compile_module(ir.mod).summary["groups"] == 1
    assert check("def @main(%x: Tensor[(3, 5), float32]) { acme.block_sums(%x, size=3) }", A).output_shapes == [(3, 1)]


def test_several_results() -> None:
    def lower(x: Tensor) -> list[Tensor]:
        return [te.compute(x.shape, lambda i, j: x[i, j] * x[i, j]), te.compute((x.shape[1],), lambda j: x[0, j])]

    define_operator("acme.pair", lambda x: (x * x, x[0]), lower=lower)
    ir = check("def @main(%x: Tensor[(3, m), float32]) { %0 = acme.pair(%x); (%0.0, %0.1) }", A)
    assert [str(v.type) for v in ir.main.outputs] == ["Tensor[(3, m), float32]", "Tensor[(m), float32]"]


def test_attributes_without_default_and_of_each_kind() -> None:
    define_operator("acme.affine", lambda x, *, scale, shift, on, mode, axes: x * scale + shift,
                    element=lambda x, *, scale, shift, on, mode, axes: x * scale + shift,
                    attributes={"shift": 1.0, "scale": float, "on": True, "mode": "a", "axes": (0, 1)})
    ir = check('def @main(%x: Tensor[(n, m), float32]) { acme.affine(%x, scale=2f, mode="b", axes=[1]) }', A)
    assert 'acme.affine(%x, scale=2f, mode="b", axes=[1])' in print_module(ir.mod)
    mistakes = {"": "'scale' is missing", ", scale=2f, on=3": "'on': got 3; expected bool", ", bias=3": "attribute 'bias'"}
    for text, message in mistakes.items():
        with pytest.raises(ParseError, match=message):
            forge.IRModule(f"def @main(%x: Tensor[(n), float32]) {{ acme.affine(%x{text}) }}")


def test_a_new_definition_takes_the_place_of_the_old_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In graphs that are built afterwards; nothing stale comes from the compile cache."""
    monkeypatch.setenv("FORGE_CACHE", "1")
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path))
    text = "def @main(%x: Tensor[(n), float32]) { acme.change(%x) }"
    for factor in (2.0, 3.0):
        define_operator("acme.change", lambda x, f=factor: x * f, element=lambda x, f=factor: x * f)
        ir = forge.IRModule(text)
        assert ir.get_inference_function()(np.ones(2, np.float32)).tolist() == [factor] * 2
    assert not cache.serves(ir.mod)
    plain = forge.IRModule("def @main(%x: Tensor[(n), float32]) { exp(%x) }")
    assert cache.serves(plain.mod)


def test_a_wrong_lowering_is_refused_by_name() -> None:
    define_operator("acme.sparse", lambda x: x[::2], lower=lambda x: te.compute((x[0],), lambda i: x[i]))
    with pytest.raises(ParseError, match=r"acme.sparse: a size of the result; got .*; expected \+ - \* //"):
        forge.IRModule("def @main(%x: Tensor[(n), float32]) { acme.sparse(%x) }")
    define_operator("acme.ragged", lambda x: x, lower=lambda x: te.compute(x.shape, lambda i: x[i, i]))
    with pytest.raises(ParseError, match=r"acme.ragged: got operands .* which do not fit"):
        forge.IRModule("def @main(%x: Tensor[(n), float32]) { acme.ragged(%x) }")


def element(x: Expr) -> Expr:
    return x


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("selu", {"element": element}, "'selu': got that name; expected one with a prefix, as in 'acme.selu'"),
        ("acme.", {"element": element}, "expected one with a prefix"),
        ("nn.relu", {"element": element}, "'nn.relu': Forge has an operator of that name; choose another prefix"),
        ("acme.a", {}, "got neither of element and lower; expected one of them"),
        ("acme.a", {"element": element, "lower": element}, "got both of element and lower; expected one of them"),
        ("acme.a", {"lower": element, "kind": "anchor"}, "kind: got 'anchor'; expected one of injective, reduction, opaque"),
        ("acme.a", {"element": element, "accepts": "floats"}, "accepts: got 'floats'; expected one of any, bool, integer"),
        ("acme.a", {"element": element, "attributes": {"name": 1}}, "attributes: got 'name', which is that of the node"),
        ("acme.a", {"element": element, "attributes": {"by": None}}, "attributes: by: got None; expected a number, a string"),
        ("acme.a", {"element": lambda x: None}, "element fails for float32, int32 and bool"),
    ],
)
def test_mistakes(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        define_operator(name, lambda x: x, **options)
