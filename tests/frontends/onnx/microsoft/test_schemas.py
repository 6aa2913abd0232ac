"""The rows of com.microsoft against the schemas of onnxruntime."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as native

from forge.errors import OpNotImplemented
from forge.frontends.converter import Converter
from forge.frontends.onnx import REGISTRY, import_model
from tests.frontends.onnx.microsoft.support import DOMAIN, floats, node_model

BLOCKED = f"{DOMAIN}.nchwc"
IMPLICIT = {("QuantizeLinear", "axis"), ("DequantizeLinear", "axis")}  # the standard's default, which is also the kernels'


def schemas() -> dict[str, Any]:
    return {s.name: s for s in native.get_all_operator_schema() if s.domain == DOMAIN}


def converted() -> list[Any]:
    known = schemas()
    return [pytest.param(known[r.op], r, id=r.op) for r in REGISTRY.rows() if r.domain == DOMAIN and r.op in known]


def test_every_operator_is_converted_or_refused_for_a_reason() -> None:
    rows = {row.op for row in REGISTRY.rows() if row.domain == DOMAIN}
    refused = {op for domain, op in REGISTRY.refused() if domain == DOMAIN}
    assert rows | refused == set(schemas())
    assert not rows & refused
    blocked = {s.name for s in native.get_all_operator_schema() if s.domain == BLOCKED}
    assert {op for domain, op in REGISTRY.refused() if domain == BLOCKED} == blocked


@pytest.mark.parametrize(("schema", "row"), converted())
def test_attributes(schema: Any, row: Converter) -> None:
    assert set(schema.attributes) == set(row.attributes)
    for name, attribute in schema.attributes.items():
        default = onnx.AttributeProto()
        default.ParseFromString(attribute._default_value)
        if not default.name:
            continue
        value = onnx.helper.get_attribute_value(default)
        assert row.attributes[name] == (value.decode() if isinstance(value, bytes) else pytest.approx(value, rel=1e-6)), name


@pytest.mark.parametrize(("schema", "row"), converted())
def test_operands(schema: Any, row: Converter) -> None:
    options = [str(i.option).rpartition(".")[2] for i in schema.inputs]
    variadic = options[-1:] == ["Variadic"]
    assert row.max_operands == (None if variadic else len(options))
    assert row.min_operands <= len(options) - variadic or row.op == "QLinearConcat"


@pytest.mark.parametrize(("op", "domain"), [("BeamSearch", DOMAIN), ("Conv", BLOCKED), ("Tokenizer", DOMAIN)])
def test_refusal_tells_the_reason(op: str, domain: str) -> None:
    proto = node_model(op, [floats(0, 2, 3)], domain=domain)
    with pytest.raises(OpNotImplemented) as caught:
        import_model(proto)
    assert f"{domain}.{op} (opset 1): 1x, first at node 'the_{op}': {REGISTRY.refusal(domain, op)}" in str(caught.value)
    assert REGISTRY.refusal(domain, op)
