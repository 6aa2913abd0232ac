"""Forests of scikit-learn, and the same as ONNX models written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

_DOMAIN = "ai.onnx.ml"


def sklearn_forest(trees: int, depth: int | None, classes: int, features: int, rows: int = 4000) -> tuple[np.ndarray, Any]:
    """Made-up data and a random forest that is trained on it; ``classes`` 0: a regressor."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    rng = np.random.default_rng(0)
    data = rng.normal(size=(rows, features)).astype(np.float32)
    wanted = data[:, 0] * data[:, 1] + np.sin(3 * data[:, 2]) + rng.normal(size=rows) * 0.1
    options = {"n_estimators": trees, "max_depth": depth, "random_state": 0, "n_jobs": 1}
    if not classes:
        return data, RandomForestRegressor(**options).fit(data, wanted)
    edges = np.quantile(wanted, np.linspace(0, 1, classes + 1)[1:-1])
    return data, RandomForestClassifier(**options).fit(data, np.searchsorted(edges, wanted))


def to_onnx(forest: Any, features: int) -> onnx.ModelProto:
    """The forest as one node: ``x`` -> ``y`` or, of a classifier, ``label`` and ``scores``."""
    classes = getattr(forest, "classes_", None)
    kind = "target" if classes is None else "class"
    columns: dict[str, list[Any]] = {}

    def put(**values: Any) -> None:
        for name, value in values.items():
            columns.setdefault(name, []).append(value)

    for tree, estimator in enumerate(forest.estimators_):
        for node in range(estimator.tree_.node_count):
            _put_node(put, estimator.tree_, tree, node, kind, len(forest.estimators_))
    attributes: dict[str, Any] = dict(columns)
    outputs = ["y"] if classes is None else ["label", "scores"]
    if classes is None:
        attributes["n_targets"] = 1
        types = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])]
    else:
        attributes["classlabels_int64s"] = classes.tolist()
        types = [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", len(classes)]),
        ]
    operator = "TreeEnsembleRegressor" if classes is None else "TreeEnsembleClassifier"
    node = helper.make_node(operator, ["x"], outputs, domain=_DOMAIN, **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", features])]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_DOMAIN, 3)]
    return helper.make_model(helper.make_graph([node], "forest", inputs, types), opset_imports=opsets, ir_version=10)


def _put_node(put: Any, tree: Any, number: int, node: int, kind: str, trees: int) -> None:
    is_leaf = tree.children_left[node] < 0
    put(
        nodes_treeids=number, nodes_nodeids=node, nodes_modes="LEAF" if is_leaf else "BRANCH_LEQ",
        nodes_featureids=0 if is_leaf else int(tree.feature[node]), nodes_values=_rounded_down(tree.threshold[node]),
        nodes_truenodeids=0 if is_leaf else int(tree.children_left[node]),
        nodes_falsenodeids=0 if is_leaf else int(tree.children_right[node]),
    )
    if not is_leaf:
        return
    values = tree.value[node, 0]
    for target, value in enumerate(values):
        put(**{
            f"{kind}_treeids": number, f"{kind}_nodeids": node, f"{kind}_ids": target, f"{kind}_weights": float(value) / trees,
        })


def _rounded_down(threshold: float) -> float:
    """The largest float32 that is not above: the same comparison for float32 data."""
    single = np.float32(threshold)
    return float(single if single <= threshold else np.nextafter(single, np.float32(-np.inf)))
