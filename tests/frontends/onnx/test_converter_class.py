"""Converters written as classes: versions, both signatures, inputs, attributes and weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import ConverterError, OpNotImplemented
from forge.frontends.onnx import OnnxOpConverter, import_model, register, unregister
from forge.frontends.onnx import expr as _expr
from forge.frontends.onnx import op as _op
from tests.frontends.onnx.support import assert_same, example, model, onnxruntime_outputs, run

DOMAIN = "com.acme"
X = example(0, 2, 3)


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for name in ("Op", "Selu"):
        unregister(name, domain=DOMAIN)
        unregister(name)


def custom(call: str = "y = com.acme.Op(x)", version: int = 1, outputs: str = "float[2, 3] y", **weights: Any) -> onnx.ModelProto:
    return model(f"g (float[2, 3] x) => ({outputs}) {{ {call} }}", domains={DOMAIN: version}, **weights)


class Selu(OnnxOpConverter):
    """As it stands in the article on writing converters."""

    @classmethod
    def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
        alpha = float(attr.get("alpha", 1.6732))
        gamma = float(attr.get("gamma", 1.0507))
        return _expr.const(gamma) * (
            _expr.const(-alpha) * _op.nn.relu(_expr.const(1.0) - _op.exp(inputs[0]))
            + _op.nn.relu(inputs[0])
        )  # fmt: skip


def selu(x: np.ndarray, alpha: float = 1.6732, gamma: float = 1.0507) -> np.ndarray:
    return gamma * np.where(x > 0, x, alpha * (np.exp(x) - 1)).astype(np.float32)


def test_the_class_of_the_article() -> None:
    register("Selu", Selu, domain=DOMAIN)
    np.testing.assert_allclose(run(custom("y = com.acme.Selu(x)"), X)[0], selu(X), rtol=1e-5)
    got = run(custom("y = com.acme.Selu<alpha = 2.0, gamma = 1.0>(x)"), X)[0]
    np.testing.assert_allclose(got, selu(X, 2.0, 1.0), rtol=1e-5)


def test_it_takes_the_place_of_an_operator_of_onnx_at_every_opset() -> None:
    register("Selu", Selu)
    for opset in (6, 21, 22):
        proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Selu(x) }", opset=opset)
        assert "nn.selu" not in str(import_model(proto))
        assert_same(run(proto, X), onnxruntime_outputs(proto, X), 1e-3)


def test_as_a_decorator_with_a_builder_and_versions() -> None:
    @register("Op", domain=DOMAIN)
    class Op(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, g: Any, inputs: Any, attr: Any, params: Any) -> Any:
            return g.call("negative", inputs[0].value)

        @classmethod
        def _impl_v3(cls, g: Any, inputs: Any, attr: Any, params: Any) -> Any:
            return inputs[0] * g.opset

    assert Op.versions() == [1, 3]
    results = [run(custom(version=version), X)[0] for version in (1, 2, 3, 4)]
    for got, factor in zip(results, (-1, -1, 3, 4), strict=True):
        np.testing.assert_array_equal(got, X * factor)


def test_versions_of_a_base_class_are_inherited() -> None:
    class Later(Selu):
        @classmethod
        def _impl_v2(cls, inputs: Any, attr: Any, params: Any) -> Any:
            return -inputs[0]

    register("Op", Later, domain=DOMAIN)
    np.testing.assert_allclose(run(custom(version=1), X)[0], selu(X), rtol=1e-5)
    np.testing.assert_array_equal(run(custom(version=2), X)[0], -X)
    register("Op", Selu, domain=DOMAIN)
    np.testing.assert_allclose(run(custom(version=2), X)[0], selu(X), rtol=1e-5)


def test_older_than_every_version() -> None:
    class Later(OnnxOpConverter):
        @classmethod
        def _impl_v2(cls, inputs: Any, attr: Any, params: Any) -> Any:
            return inputs[0]

    register("Op", Later, domain=DOMAIN)
    with pytest.raises(OpNotImplemented, match=r"com\.acme\.Op \(opset 1\)"):
        import_model(custom(version=1))
    with pytest.raises(NotImplementedError, match=r"Later: no method for opset 1; expected one of \[2\]"):
        Later.get_converter(1)
    assert Later.get_converter(7) == Later._impl_v2


def test_absent_inputs_are_none() -> None:
    seen: list[Any] = []

    class Op(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
            seen.extend([inputs[1], inputs[3], inputs[9], len(inputs)])
            return inputs[0] + inputs[2]

    register("Op", Op, domain=DOMAIN)
    assert np.array_equal(run(custom("y = com.acme.Op(x, , x)"), X)[0], X + X)
    assert seen == [None, None, None, 3]


def test_weights_and_known_contents() -> None:
    class Op(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
            assert list(params) == ["w", "unused"]
            assert len(params) == 2
            np.testing.assert_array_equal(params["w"], inputs[1].array)
            assert inputs[0].array is None
            return inputs[0] * float(params["w"].sum())

    register("Op", Op, domain=DOMAIN)
    w = np.array([1, 2], np.float32)
    for frozen in (True, False):
        got = run(custom("y = com.acme.Op(x, w)", w=w, unused=w), X, freeze_params=frozen)
        np.testing.assert_array_equal(got[0], X * 3)


def test_several_outputs() -> None:
    class Op(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
            first, second, _ = _op.split(inputs[0], indices_or_sections=3, axis=1)
            return [first, second]

    register("Op", Op, domain=DOMAIN)
    got = run(custom("y, z = com.acme.Op(x)", outputs="float[2, 1] y, float[2, 1] z"), X)
    np.testing.assert_array_equal(np.concatenate(got, axis=1), X[:, :2])


def test_mistakes_in_a_method_name_the_node() -> None:
    class Op(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
            return inputs[0] * attr["factor"]

    register("Op", Op, domain=DOMAIN)
    told = r"node 'Op_0' \(com.acme.Op, opset 1\): its converter .*\.Op\._impl_v1 failed with KeyError: 'factor'; the fault is"
    with pytest.raises(ConverterError, match=told):
        import_model(custom())


def test_classes_that_cannot_be_registered() -> None:
    class Empty(OnnxOpConverter):
        pass

    class Two(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any) -> Any:
            return inputs[0]

    with pytest.raises(ValueError, match="Empty: has no method _impl_vN"):
        register("Op", Empty, domain=DOMAIN)
    with pytest.raises(ValueError, match=r"Two._impl_v1: takes 2 parameters; expected a class method of"):
        register("Op", Two, domain=DOMAIN)
    with pytest.raises(ValueError, match="got class int; expected a function or an OnnxOpConverter"):
        register("Op", int, domain=DOMAIN)
    with pytest.raises(ValueError, match="got since=7 for a class"):
        register("Op", Selu, domain=DOMAIN, since=7)
