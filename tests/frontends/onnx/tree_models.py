"""Random models of one ensemble of trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 4
TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
         "int32": TensorProto.INT32, "int64": TensorProto.INT64, "string": TensorProto.STRING}
_GRID = np.array([-2, -1, -0.5, 0, 0.5, 1, 2])


def info(name: str, dtype: str, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TYPES[dtype], shape)


def single(
    op: str, attributes: dict[str, Any], dtype: str, outputs: Sequence[onnx.ValueInfoProto], opset: int = 3
) -> onnx.ModelProto:
    """A model of one node with input x."""
    node = helper.make_node(op, ["x"], [o.name for o in outputs], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "ml", [info("x", dtype, "N", FEATURES)], list(outputs))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def rows(rng: np.random.Generator, count: int, dtype: str) -> np.ndarray:
    data = np.where(rng.random((count, FEATURES)) < 0.5, rng.choice(_GRID, (count, FEATURES)), rng.normal(size=(count, FEATURES)))
    if dtype.startswith("float"):
        wild = rng.choice([np.nan, np.inf, -np.inf], data.shape)
        data = np.where(rng.random(data.shape) < 0.2, wild, data)
    return data.astype(dtype)


def nodes(
    rng: np.random.Generator, trees: int, depth: int, modes: Sequence[str], missing: bool
) -> tuple[dict[str, list[Any]], list[tuple[int, int]]]:
    """Attributes of the nodes, and trees and numbers of the leaves."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    columns: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names}
    leaves = []
    for tree in range(trees):
        built: list[list[Any]] = []
        _grow(rng, built, depth, depth, modes)
        for number, (mode, feature, value, true, false) in enumerate(built):
            entry = (tree, number, feature, value, mode, true, false, int(rng.integers(2)) if missing else 0)
            for name, part in zip(names, entry, strict=True):
                columns[f"nodes_{name}"].append(part)
            if mode == "LEAF":
                leaves.append((tree, number))
    if not missing:
        del columns["nodes_missing_value_tracks_true"]
    return columns, leaves


def _grow(rng: np.random.Generator, built: list[list[Any]], left: int, depth: int, modes: Sequence[str]) -> int:
    number = len(built)
    built.append(["LEAF", 0, 0.0, 0, 0])
    if left and (left == depth or rng.random() > 0.15):
        true, false = (_grow(rng, built, left - 1, depth, modes) for _ in range(2))
        built[number] = [str(rng.choice(list(modes))), int(rng.integers(FEATURES)), float(rng.choice(_GRID)), true, false]
    return number


def regressor(
    rng: np.random.Generator, *, dtype: str = "float32", trees: int = 5, depth: int = 4, modes: Sequence[str] = MODES,
    missing: bool = True, targets: int = 1, aggregate: str = "SUM", transform: str = "NONE", base: bool = False,
    sparse: bool = False, opset: int = 3,
) -> onnx.ModelProto:
    attributes, leaves = nodes(rng, trees, depth, modes, missing)
    attributes |= _weights(rng, "target", leaves, targets, sparse, positive=False)
    attributes |= {"n_targets": targets, "aggregate_function": aggregate, "post_transform": transform}  # type: ignore[dict-item]
    if base:
        attributes["base_values"] = rng.normal(size=targets).tolist()
    return single("TreeEnsembleRegressor", attributes, dtype, [info("y", "float32", "N", targets)], opset)


def classifier(
    rng: np.random.Generator, labels: Sequence[Any], *, dtype: str = "float32", trees: int = 5, depth: int = 4,
    modes: Sequence[str] = MODES, missing: bool = True, transform: str = "NONE", base: bool = False, positive: bool = False,
    ids: int = 0, opset: int = 3,
) -> onnx.ModelProto:
    """``ids``: of how many classes leaves speak; 0: of all."""
    attributes, leaves = nodes(rng, trees, depth, modes, missing)
    attributes |= _weights(rng, "class", leaves, ids or len(labels), False, positive)
    attributes["post_transform"] = transform  # type: ignore[assignment]
    is_text = isinstance(labels[0], str)
    attributes["classlabels_strings" if is_text else "classlabels_int64s"] = list(labels)
    if base:
        attributes["base_values"] = rng.normal(size=ids or len(labels)).tolist()
    outputs = [info("label", "string" if is_text else "int64", "N"), info("scores", "float32", "N", len(labels))]
    return single("TreeEnsembleClassifier", attributes, dtype, outputs, opset)


def _weights(
    rng: np.random.Generator, kind: str, leaves: Sequence[tuple[int, int]], targets: int, sparse: bool, positive: bool
) -> dict[str, list[Any]]:
    entries = [(t, n, k) for t, n in leaves for k in ([t % targets] if sparse else range(targets))]
    weights = rng.normal(size=len(entries))
    return {
        f"{kind}_treeids": [t for t, _, _ in entries], f"{kind}_nodeids": [n for _, n, _ in entries],
        f"{kind}_ids": [k for _, _, k in entries], f"{kind}_weights": (np.abs(weights) / 9 if positive else weights).tolist(),
    }
