"""The table of converters against the schemas of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import OpAttributeInvalid, OpNotImplemented
from forge.frontends.converter import Converter
from forge.frontends.onnx import Context, import_model, register, unregister
from forge.frontends.onnx.registry import REGISTRY, published_versions
from forge.frontends.registry import Registry
from tests.frontends.onnx.support import model, run

IGNORED = {"consumed_inputs"}
MISSPELLED = {("GRU", 1, "direction")}  # the schema says "foward"
LEFT_OUT = {("BatchNormalization", "is_test"), ("Dropout", "is_test")}  # not training, where an exporter leaves it out


def schemas() -> list[Any]:
    """Every version of every operator that the table has a row for, with the row."""
    found = []
    for schema in onnx.defs.get_all_schemas_with_history():
        row = REGISTRY.lookup(schema.domain, schema.name, schema.since_version)
        if row is not None and not schema.deprecated:
            found.append(pytest.param(schema, row, id=f"{schema.name}-{schema.since_version}"))
    return found


def test_no_holes() -> None:
    assert REGISTRY.holes(published_versions()) == []


def test_hole_is_found() -> None:
    registry = Registry("toy", domain_name="ai.onnx")
    registry.converts("Softmax", since=13)(lambda g, x, *, axis=-1: x)
    registry.converts("Softmax", since=14)(lambda g, x, *, axis=-1: x)
    assert registry.holes(published_versions()) == [
        "ai.onnx.Softmax: no row for version 1; the first is 13",
        "Softmax: row 14 is not a version; expected one of [1, 11, 13]",
    ]


def test_two_rows_for_one_version_are_refused() -> None:
    with pytest.raises(ValueError, match="registered already"):
        REGISTRY.converts("Softmax", since=13)(lambda g, x: x)


@pytest.mark.parametrize(("schema", "row"), schemas())
def test_every_attribute_of_the_schema_is_a_parameter(schema: Any, row: Converter) -> None:
    assert set(schema.attributes) - IGNORED <= set(row.attributes)


@pytest.mark.parametrize(("schema", "row"), schemas())
def test_defaults_are_those_of_the_schema(schema: Any, row: Converter) -> None:
    for name, attribute in schema.attributes.items():
        if name in IGNORED or not attribute.default_value.name or (schema.name, schema.since_version, name) in MISSPELLED:
            continue
        value = onnx.helper.get_attribute_value(attribute.default_value)
        ours = row.attributes[name]
        if ours is None and (schema.name, name) in LEFT_OUT:
            continue
        if isinstance(value, bytes):
            assert ours == value.decode()
        elif isinstance(value, list):
            assert list(ours) == [v.decode() if isinstance(v, bytes) else v for v in value]
        else:
            assert ours == pytest.approx(value, rel=1e-6), name


@pytest.mark.parametrize(("schema", "row"), schemas())
def test_operand_counts_are_those_of_the_schema(schema: Any, row: Converter) -> None:
    variadic = schema.inputs and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    assert row.max_operands is None if variadic else row.max_operands is None or row.max_operands >= len(schema.inputs)
    required = [i for i in schema.inputs if i.option == onnx.defs.OpSchema.FormalParameterOption.Single]
    assert row.min_operands <= len(required)


def test_operator_newer_than_the_table_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REGISTRY.lookup("", "Reshape", 25) is not None
    monkeypatch.setitem(REGISTRY.newest, "", 24)
    assert REGISTRY.lookup("", "Reshape", 25) is None
    assert REGISTRY.lookup("", "Relu", 25) is not None


def test_unknown_attribute() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("slope", 0.5))
    with pytest.raises(OpAttributeInvalid, match=r"'Relu_0' \(Relu, opset 21\): got attribute 'slope'; expected one of: none"):
        import_model(proto)


def test_missing_attribute() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Concat<axis=0>(x) }")
    del proto.graph.node[0].attribute[:]
    with pytest.raises(OpAttributeInvalid, match="'axis' is missing"):
        import_model(proto)


@pytest.mark.parametrize("inputs", ["", "x, x, x"])
def test_wrong_number_of_inputs(inputs: str) -> None:
    proto = model(f"g (float[2] x) => (float[2] y) {{ y = Add({inputs}) }}")
    with pytest.raises(OpAttributeInvalid, match="expected 2 to 2"):
        import_model(proto)


def test_users_converter() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = com.acme.Twice<bias: float = 1.0>(x) }", domains={"com.acme": 1})
    with pytest.raises(OpNotImplemented, match=r"com\.acme\.Twice"):
        import_model(proto)

    @register("Twice", domain="com.acme")
    def twice(g: Context, x: Any, *, bias: float = 0.0) -> Any:
        return g.call("add", g.call("add", x, x), g.scalar(bias, x))

    try:
        assert twice is not None
        np.testing.assert_allclose(run(proto, np.array([1.0, 2.0], np.float32))[0], [3, 5])
    finally:
        unregister("Twice", domain="com.acme")
    with pytest.raises(OpNotImplemented):
        import_model(proto)


def test_users_converter_wins_over_the_built_in_one() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    register("Relu", lambda g, x: g.call("negative", x))
    try:
        assert run(proto, np.ones(2, np.float32))[0].tolist() == [-1, -1]
    finally:
        unregister("Relu")
    assert run(proto, np.ones(2, np.float32))[0].tolist() == [1, 1]


def test_users_converter_holds_for_later_versions_of_the_operator() -> None:
    """Forge has rows for Softmax since 1, 11 and 13; one of the user's since 1 wins over all of them, since 13 over the last."""
    protos = {opset: model("g (float[1, 2] x) => (float[1, 2] y) { y = Softmax(x) }", opset=opset) for opset in (7, 12, 13, 21)}
    x = np.ones((1, 2), np.float32)
    for since, theirs in ((1, [7, 12, 13, 21]), (13, [13, 21])):
        register("Softmax", lambda g, x, *, axis=-1: g.call("negative", x), since=since)
        try:
            assert [opset for opset, proto in protos.items() if run(proto, x)[0][0, 0] == -1] == theirs
        finally:
            unregister("Softmax", since=since)
    assert run(protos[21], x)[0][0, 0] == 0.5


def test_users_converter_wins_over_a_function_of_the_model() -> None:
    functions = '<domain: "f", opset_import: ["" : 21]> Twice (a) => (b) { b = Unknown(a) }'
    proto = model("g (float[2] x) => (float[2] y) { y = f.Twice(x) }", functions=functions, domains={"f": 1})
    register("Twice", lambda g, x: g.call("add", x, x), domain="f")
    try:
        assert run(proto, np.ones(2, np.float32))[0].tolist() == [2, 2]
    finally:
        unregister("Twice", domain="f")


def test_users_converter_may_take_any_attributes() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = com.acme.Scale<by = 3.0>(x) }", domains={"com.acme": 1})
    register("Scale", lambda g, *inputs, **attributes: g.call("multiply", inputs[0], g.scalar(attributes["by"], inputs[0])),
             domain="com.acme")
    try:
        assert run(proto, np.ones(2, np.float32))[0].tolist() == [3, 3]
    finally:
        unregister("Scale", domain="com.acme")


def test_a_known_name_in_another_domain_is_another_operator() -> None:
    proto = model("g (float[2] x) => (float[2] y) { y = my.custom.Relu(x) }", domains={"my.custom": 1})
    with pytest.raises(OpNotImplemented, match=r"my\.custom\.Relu"):
        import_model(proto)
