"""Older versions of operators by the suite's cases: models of one node, in each version that can say the same.

Inputs that were attributes once become attributes. The expected outputs are those of the case, unless the meaning has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx_backend import cases
from tests.onnx_backend.compare import check_outputs
from tests.onnx_backend.runtimes import prepare_interpreter
from tests.onnx_backend.stored import StoredCase
from tests.onnx_backend.worker import as_values

BROADCAST_SINCE = 7
CHANGED = {
    ("Bernoulli", 15): "random numbers",
    ("Dropout", 12): "random numbers",
    ("Dropout", 13): "random numbers",
    ("DFT", 17): "another default axis",
    ("Hardmax", 1): "of all axes from one on, flattened",
    ("Hardmax", 11): "of all axes from one on, flattened",
    ("LogSoftmax", 1): "of all axes from one on, flattened",
    ("LogSoftmax", 11): "of all axes from one on, flattened",
    ("Softmax", 1): "of all axes from one on, flattened",
    ("Softmax", 11): "of all axes from one on, flattened",
    ("PRelu", 1): "slopes are those of channels",
    ("PRelu", 6): "slopes are those of channels",
    ("RoiAlign", 10): "pixels have their centre elsewhere",
}
"""Versions in which some cases have other results, or none."""

AT_LEAST = 2500


def versions() -> dict[str, dict[int, Any]]:
    """Schemas of ai.onnx by operator and version."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found[schema.name][schema.since_version] = schema
    return found


def older_models(case: Any) -> Iterator[tuple[int, onnx.ModelProto, list[Any]]]:
    """Versions, models and inputs that say what the case says."""
    graph = case.model.graph
    if isinstance(case, StoredCase) or len(graph.node) != 1 or graph.initializer or graph.node[0].domain:
        return
    (opset,) = (o.version for o in case.model.opset_import if not o.domain)
    known = versions()[graph.node[0].op_type]
    current = max(v for v in known if v <= opset)
    for version, schema in known.items():
        if version < current and not schema.deprecated:
            found = rewritten(case, known[current], schema)
            if found is not None:
                yield version, *found


def rewritten(case: Any, new: Any, old: Any) -> tuple[onnx.ModelProto, list[Any]] | None:
    """The case as a model of the version of ``old``; None where that cannot say it."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph, node = model.graph, model.graph.node[0]
    given = dict(zip([i.name for i in graph.input], as_values(case.data_sets[0][0]), strict=True))
    gone = inputs_to_attributes(node, given, new, old)
    if gone is None or not drop_defaults(node, new, old) or len(node.output) > old.max_output:
        return None
    inputs = [info for info in graph.input if info.name not in gone]
    del graph.input[:]
    graph.input.extend(inputs)
    for imported in model.opset_import:
        imported.version = old.since_version if not imported.domain else imported.version
    shapes = {np.shape(given[info.name]) for info in inputs}
    if old.since_version < BROADCAST_SINCE and "broadcast" in old.attributes and len(shapes) > 1:
        return None
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return model, [given[info.name] for info in inputs]


def inputs_to_attributes(node: onnx.NodeProto, given: dict[str, Any], new: Any, old: Any) -> set[str] | None:
    """Makes inputs that ``old`` lacks attributes; their names, or None where it has no such attribute."""
    gone = set()
    while len(node.input) > old.max_input:
        index = len(node.input) - 1
        name = new.inputs[index].name.lower() if index < len(new.inputs) else ""
        name = {"constant_value": "value"}.get(name, name)
        value = node.input.pop()
        if not value:
            continue
        if name not in old.attributes or value not in given or not np.size(given[value]):
            return None
        array = np.asarray(given[value]).ravel()
        is_list = old.attributes[name].type.name.endswith("S")
        node.attribute.append(helper.make_attribute(name, array.tolist() if is_list else array[0].item()))
        gone.add(value)
    while node.input and not node.input[-1]:
        node.input.pop()
    return gone


def drop_defaults(node: onnx.NodeProto, new: Any, old: Any) -> bool:
    """Drops attributes that ``old`` lacks and that have their defaults; False where another one is left."""
    for attribute in [a for a in node.attribute if a.name not in old.attributes]:
        default = new.attributes[attribute.name].default_value if attribute.name in new.attributes else None
        if default is None or not default.name or helper.get_attribute_value(default) != helper.get_attribute_value(attribute):
            return False
        node.attribute.remove(attribute)
    return True


@pytest.mark.slow
def test_older_versions_give_the_outputs_of_the_newest() -> None:
    count, failed = 0, []
    for name, case in cases.collect().items():
        for version, model, inputs in older_models(case):
            op = model.graph.node[0].op_type
            if (op, version) in CHANGED:
                continue
            count += 1
            try:
                got = prepare_interpreter(model.SerializeToString(), ())(inputs)
                check_outputs(as_values(case.data_sets[0][1]), got, case.rtol, case.atol)
            except Exception as error:  # noqa: BLE001  (all failures are reported together)
                failed.append(f"{name}: {op}-{version}: {error}")
    assert not failed
    assert count >= AT_LEAST


def test_softmax_has_other_outputs_in_older_versions() -> None:
    case = cases.collect()["test_softmax_axis_0"]
    found = {version: (model, inputs) for version, model, inputs in older_models(case)}
    assert sorted(found) == [1, 11]
    model, inputs = found[11]
    got = prepare_interpreter(model.SerializeToString(), ())(inputs)
    with pytest.raises(AssertionError):
        check_outputs(as_values(case.data_sets[0][1]), got, case.rtol, case.atol)
