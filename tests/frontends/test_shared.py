"""What importers share, by a format that has nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from forge.errors import ConverterError, ImportModelError, OpAttributeInvalid, OpNotImplemented
from forge.frontends import scope
from forge.frontends.context import ImportContext
from forge.frontends.converter_class import OpConverter
from forge.frontends.registry import Registry
from forge.ir import interp
from forge.ir.graph import Module
from tests.frontends import toy
from tests.frontends.toy import REGISTRY, ScaleAttributes, ToyConvertMap, from_toy


def node(op: str, uses: str, gives: str, **attributes: Any) -> dict[str, Any]:
    return {"op": op, "name": f"the_{op}", "uses": uses.split(), "gives": gives.split(), "attributes": attributes}


def model(*nodes: dict[str, Any], version: int = 2, **more: Any) -> dict[str, Any]:
    return {"version": version, "inputs": {"x": ["n"]}, "outputs": ["y"], "nodes": list(nodes), **more}


def run(module: Module, *x: float) -> list[float]:
    (result,) = interp.run_module(module, {"x": np.array(x, np.float32)})
    return [float(v) for v in result]


@pytest.fixture
def cleanup() -> Iterator[None]:
    yield
    for op in ("twice", "scale"):
        REGISTRY.unregister(op)


def test_a_model_is_converted() -> None:
    module = from_toy(model(node("scale", "x", "a", factor=3, offset=1.0), node("sum", "a x", "y")))
    assert run(module, 1, 2) == [5, 9]
    assert [n.name for n in module.main.nodes if n.name] == ["the_scale", "the_sum"]


def test_records_are_combined_by_inheritance() -> None:
    module = from_toy(model(node("rounded_scale", "x", "y", factor=0.126, digits=2)))
    assert run(module, 1) == pytest.approx([0.13])
    row = REGISTRY.lookup("", "rounded_scale", 1)
    assert row is not None
    assert row.attributes == {"factor": 1.0, "offset": 0.0, "digits": 0}


def test_versions_differ_in_their_attributes() -> None:
    rows = [(r.since, list(r.attributes)) for r in REGISTRY.rows() if r.op == "scale"]
    assert rows == [(1, ["factor"]), (2, ["factor", "offset"])]
    assert run(from_toy(model(node("sum", "x x", "y", negate=1), version=1)), 1) == [-2]
    expected = r"toy: node 'the_scale' \(scale\): got attribute 'offset'; expected one of: factor"
    with pytest.raises(OpAttributeInvalid, match=expected):
        from_toy(model(node("scale", "x", "y", offset=1.0), version=1))
    with pytest.raises(OpAttributeInvalid, match="got attribute 'negate'; expected one of: none"):
        from_toy(model(node("sum", "x x", "y", negate=1), version=2))


def test_versions_differ_in_their_operands() -> None:
    registry = Registry("toy")
    registry.converts("clip", introduced={"high": 2})(lambda g, x, high=None: x)
    assert [(r.since, r.max_operands) for r in registry.rows()] == [(1, 1), (2, 2)]


def test_operands_that_were_attributes() -> None:
    registry = Registry("toy")
    registry.converts("pick", introduced={"steps": 2}, attribute_before={"axes": 2})(lambda g, x, axes, steps=None: x)
    rows = [(r.since, r.min_operands, r.max_operands, list(r.attributes), r.constants) for r in registry.rows()]
    assert rows == [(1, 1, 1, ["axes"], {"axes": 1}), (2, 2, 3, [], {})]


def test_versions_of_what_is_not_an_attribute_are_refused() -> None:
    with pytest.raises(ValueError, match="relu: slope: no parameter of"):
        Registry("toy").converts("relu", introduced={"slope": 2})(lambda g, x: x)


def test_the_kind_of_an_attribute_of_a_record_is_checked() -> None:
    with pytest.raises(OpAttributeInvalid, match="attribute 'factor': got 'much'; expected float"):
        from_toy(model(node("scale", "x", "y", factor="much")))


def test_an_operator_newer_than_the_table_has_no_row() -> None:
    registry = Registry("toy", newest={"": 2}, version_of=lambda domain, op, version: version)
    registry.converts("scale")(toy.scale)
    assert registry.lookup("", "scale", 2) is not None
    assert registry.lookup("", "scale", 3) is None


def test_holes_are_found() -> None:
    assert REGISTRY.holes({("", "scale"): {1, 2}, ("", "sum"): {1}}) == ["sum: row 2 is not a version; expected one of [1]"]


def test_unsupported_operators_are_listed_at_once() -> None:
    expected = (
        "toy: 2 operators are not supported:\n  twice (opset 2): 1x, first at node 'the_twice'\n"
        "  search (opset 2): 1x, first at node 'the_search': a loop of its own\n"
        "'forge support toy' lists what is; register a converter: @forge.frontends.toy.register('twice')"
    )
    with pytest.raises(OpNotImplemented) as caught:
        from_toy(model(node("twice", "x", "a"), node("search", "a", "y")))
    assert str(caught.value) == expected


@pytest.mark.usefixtures("cleanup")
@pytest.mark.parametrize("kind", ["function", "record", "class", "map"])
def test_users_converters(kind: str) -> None:
    class Twice(OpConverter):
        @classmethod
        def _impl_v1(cls, inputs: Any, attr: Any, params: Any) -> Any:
            return inputs[0] * 2.0 + attr["offset"] + float(params["w"].numpy()[0])

    def twice(g: ImportContext, x: Any, *, offset: float = 0.0) -> Any:
        return g.call("add", g.call("add", x, x), g.scalar(offset + 1, x))

    def by_record(g: ImportContext, x: Any, *, attrs: ScaleAttributes) -> Any:
        return g.call("add", g.call("add", x, x), g.scalar(attrs.offset + 1, x))

    if kind == "map":
        ToyConvertMap(2)["twice"] = Twice.get_converter(2)
        assert "twice" in ToyConvertMap(2)
        assert "twice" not in ToyConvertMap(1)
    else:
        REGISTRY.register("twice", {"function": twice, "record": by_record, "class": Twice}[kind])
    weights = {"w": {"shape": [1], "value": 1}}
    assert run(from_toy(model(node("twice", "x", "y", offset=2.0), weights=weights)), 1) == [5]


@pytest.mark.usefixtures("cleanup")
def test_a_map_applies_forges_converters() -> None:
    def convert(inputs: Any, attr: Any, params: Any) -> Any:
        return ToyConvertMap(2)["scale"](inputs, {"factor": 4.0})

    ToyConvertMap(2)["twice"] = convert
    assert run(from_toy(model(node("twice", "x", "y"))), 1) == [4]
    del ToyConvertMap(2)["twice"]
    assert sorted(ToyConvertMap(2)) == ["rounded_scale", "scale", "sum"]


@pytest.mark.usefixtures("cleanup")
def test_a_users_converter_wins_and_its_faults_are_its_own() -> None:
    REGISTRY.register("scale", lambda g, x, **attributes: [x, None, 1])
    expected = r"'the_scale' \(scale\): its converter .*lambda.* failed with TypeError: it gave int 1; .*frontends.toy.unregister"
    with pytest.raises(ConverterError, match=expected):
        from_toy(model(node("scale", "x", "y")))
    REGISTRY.unregister("scale")
    assert run(from_toy(model(node("scale", "x", "y"))), 1) == [1]


def test_nodes_are_sorted() -> None:
    with pytest.warns(UserWarning, match=r"node 'the_sum' \(sum\) uses value 'a', which node 'the_scale' gives after it"):
        module = from_toy(model(node("sum", "a x", "y"), node("scale", "x", "a", factor=2.0)))
    assert run(module, 1) == [3]


def test_weights_are_parameters() -> None:
    module = from_toy(model(node("sum", "x w", "y"), weights={"w": {"shape": [1], "value": 2}, "v": {"shape": [1], "value": 3}}),
                      freeze_params=False)
    assert [v.name for v in module.main.inputs] == ["x", "w"]
    assert run(module, 1) == [3]


def test_sizes_of_inputs() -> None:
    module = from_toy(model(node("sum", "x x", "y")), shape={"x": (4,)})
    assert module.main.inputs[0].shape == (4,)
    with pytest.raises(ImportModelError, match=r"shape= names 'z'; expected an input: x"):
        from_toy(model(node("sum", "x x", "y")), shape={"z": (4,)})


def test_a_hostile_size_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(ImportModelError, match=r"'the_sum' \(sum\): tensor 'w': got shape \[1099511627776\]; expected at most"):
        from_toy(model(node("sum", "x w", "y"), weights={"w": {"shape": [1 << 40], "value": 0}}))


def test_functions_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = node("sum", "", "")
    endless["body"] = [endless]
    with pytest.raises(ImportModelError, match=r"functions are nested more than 32 deep; expected no recursion"):
        from_toy(model(endless))
    monkeypatch.setattr(scope, "MIN_EXPANSION", 10)
    monkeypatch.setattr(scope, "EXPANSION_FACTOR", 1)
    with pytest.raises(ImportModelError, match="expand to more than 11 nodes"):
        from_toy(model(endless))
