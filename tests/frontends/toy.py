"""A format made of dictionaries, whose importer uses only what ``forge.frontends`` shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge import ops  # noqa: F401
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.context import ImportContext
from forge.frontends.convert import finished, located
from forge.frontends.convert_map import ConvertMap
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs, check_names
from forge.frontends.order import OrderedNode, topological
from forge.frontends.registry import Registry, as_list
from forge.frontends.scope import ImportState, Scope
from forge.frontends.support import CONVERTER, MISSING, Coverage, Use, check_supported
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType

MAX_ELEMENTS = 1 << 20
REGISTRY = Registry("toy", newest={"": 2})


@dataclass(frozen=True)
class ScaleAttributes:
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class RoundedScaleAttributes(ScaleAttributes):
    digits: int = 0


@REGISTRY.converts("scale", introduced={"offset": 2})
def scale(g: ImportContext, x: Value, *, attrs: ScaleAttributes) -> Value:
    scaled = g.call("multiply", x, g.scalar(attrs.factor, x))
    return scaled if attrs.offset == 0.0 else g.call("add", scaled, g.scalar(attrs.offset, x))


@REGISTRY.converts("rounded_scale")
def rounded_scale(g: ImportContext, x: Value, *, attrs: RoundedScaleAttributes) -> Value:
    unit = g.scalar(10.0**attrs.digits, x)
    return g.call("divide", g.call("round", g.call("multiply", scale(g, x, attrs=attrs), unit)), unit)


@REGISTRY.converts("sum", removed={"negate": 2})
def total(g: ImportContext, *operands: Value, negate: int = 0) -> Value:
    result = operands[0]
    for operand in operands[1:]:
        result = g.call("add", result, operand)
    return g.call("negative", result) if negate else result


REGISTRY.refuse("search", "a loop of its own")


class ToyConvertMap(ConvertMap):
    registry = REGISTRY

    def apply(
        self, around: ImportContext, name: str, operands: list[Value | None], attributes: dict[str, Any], num_outputs: int | None
    ) -> Any:
        row = REGISTRY.lookup(self.domain, name, self.opset)
        if row is None:
            raise OpNotImplemented(name)
        return REGISTRY.convert(row, ImportContext(around.scope, around.name, ["out"] * (num_outputs or 1)), operands, attributes)


def from_toy(model: Mapping[str, Any], shape: ShapeDict | None = None, freeze_params: bool = True) -> Module:
    nodes = model["nodes"]
    state = ImportState(size=len(nodes), freeze_params=freeze_params)
    with located(model.get("name", "toy")):
        check_supported(model_operators(model), REGISTRY)
        scope = Scope(Graph(name="main"), state, {"": model["version"]})
        scope.weights.update({name: partial(weight, name, stored) for name, stored in model.get("weights", {}).items()})
        check_names(list(model["inputs"]), shape or {}, {})
        labels = DimensionNames(d for dims in model["inputs"].values() for d in dims if isinstance(d, str))
        types = [(name, TensorType(tuple(labels.symbol(d) if isinstance(d, str) else d for d in dims), "float32"))
                 for name, dims in model["inputs"].items()]
        add_inputs(scope, types, labels, shape or {})
        convert_nodes(scope, nodes)
        scope.graph.outputs = [scope.required(name) for name in model["outputs"]]
        return finished(scope, model["outputs"])


def convert_nodes(scope: Scope[ImportState], nodes: list[dict[str, Any]]) -> None:
    steps = [OrderedNode(n["name"], n["op"], n["uses"], n["gives"]) for n in nodes]
    for node in (nodes[k] for k in topological(steps, scope.knows)):
        with located(f"node {node['name']!r} ({node['op']})"):
            scope.state.count_node()
            if "body" in node:
                convert_nodes(scope.called(scope.versions, node["name"]), node["body"])
                continue
            row = REGISTRY.lookup("", node["op"], scope.versions[""])
            assert row is not None
            g = ImportContext(scope, node["name"], node["gives"])
            start = len(scope.graph.nodes)
            results = REGISTRY.convert(row, g, [scope.lookup(name) for name in node["uses"]], node.get("attributes", {}))
            scope.bind(node["gives"], as_list(results), start, g.name)


def weight(name: str, stored: Mapping[str, Any]) -> np.ndarray:
    if np.prod(stored["shape"], dtype=object) > MAX_ELEMENTS:
        raise ImportModelError(f"tensor {name!r}: got shape {stored['shape']}; expected at most {MAX_ELEMENTS} elements")
    return np.full(stored["shape"], stored["value"], np.float32)


def model_operators(model: Mapping[str, Any]) -> list[Use]:
    found: dict[str, Use] = {}
    for node in model["nodes"]:
        op, version = node["op"], model["version"]
        how = CONVERTER if "body" in node or REGISTRY.lookup("", op, version) else MISSING
        found.setdefault(op, Use("", op, version, how, node["name"])).count += 1
    return list(found.values())


def coverage() -> list[Coverage]:
    return [Coverage(row.domain, row.op, (row.since,), CONVERTER) for row in REGISTRY.rows()]
