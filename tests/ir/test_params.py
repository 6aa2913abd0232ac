"""Weights that modules hold: nobody writes to them, copies share them, and another array takes their place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import forge
from forge.errors import InvalidGraphError, OptionError
from forge.ir import Builder, Graph, Module, TensorType
from forge.ir.printer import print_with_constants

TEXT = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4), float32]) {
  %0 = add(%x, %w);
  multiply(%0, meta[relay.Constant][0])
}
#[metadata]
{"relay.Constant": [{"dtype": "float32", "shape": [4], "data": "AACAPwAAAEAAAEBAAACAQA=="}]}
"""


def example() -> forge.IRModule:
    return forge.IRModule(TEXT, {"w": np.arange(4, dtype=np.float32)})


def weights(ir: forge.IRModule) -> list[np.ndarray]:
    """Every array that a module shows, by every way to it."""
    found = [*ir.params.values()]
    for graph in ir.graphs.values():
        found += graph.constants.values()
        found += [node.attributes["value"] for node in graph.walk() if node.op == "constant"]
        found += [v.constant for node in graph.walk() for v in node.results if v.constant is not None]
    assert found
    return found


def saved(ir: forge.IRModule, folder: Path) -> forge.IRModule:
    ir.save(folder / "m.forge")
    return forge.load(folder / "m.forge")


def reloaded(ir: forge.IRModule, folder: Path) -> forge.IRModule:
    ir.reload()
    return ir


WAYS: dict[str, Callable[[forge.IRModule, Path], forge.IRModule]] = {
    "made": lambda ir, folder: ir,
    "copied": lambda ir, folder: ir.copy(),
    "taken": lambda ir, folder: forge.IRModule(ir),
    "taken from its module": lambda ir, folder: forge.IRModule(ir.mod),
    "reloaded": reloaded,
    "saved": saved,
    "extracted": lambda ir, folder: ir.extract([ir.main.outputs[0]]),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_weight_can_be_written_to(way: str, tmp_path: Path) -> None:
    for array in weights(WAYS[way](example(), tmp_path)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7


@pytest.mark.parametrize("freeze", [True, False])
def test_no_weight_of_a_loaded_model_can_be_written_to(freeze: bool) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["y"]),
    ]
    arrays = {"k": np.ones((2, 3, 1, 1), np.float32), "s": np.arange(1, 3, dtype=np.float32)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, name) for name, a in arrays.items()],
    )  # fmt: skip
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ir = forge.from_onnx(model, freeze_params=freeze)
    assert freeze is ("nn.batch_norm" not in ir.operators)
    assert not any(array.flags.writeable for array in weights(ir))


def test_the_callers_arrays_stay_writable_and_no_longer_matter() -> None:
    own = np.arange(4, dtype=np.float32)
    ir = forge.IRModule(TEXT, {"w": own})
    before = ir.fingerprint
    own[...] = 9
    assert own.flags.writeable and ir.fingerprint == before and ir.params["w"].tolist() == [0, 1, 2, 3]


def test_an_array_that_nobody_can_write_to_is_not_copied() -> None:
    own = np.arange(4, dtype=np.float32)
    own.flags.writeable = False
    ir = forge.IRModule(TEXT, {"w": own})
    assert np.shares_memory(ir.params["w"], own)
    assert np.shares_memory(ir.copy().params["w"], own)


def test_assigning_to_params_changes_a_weight() -> None:
    ir, x = example(), np.ones((1, 4), np.float32)
    clone, before = ir.copy(), ir.fingerprint
    own = np.full(4, 2, np.float32)
    ir.params["w"] = own
    own[...] = 5
    assert ir.get_inference_function("reference")(x).tolist() == [[3, 6, 9, 12]]
    assert ir.fingerprint != before == clone.fingerprint
    ir.reload()
    assert ir.fingerprint == before


@pytest.mark.parametrize(("name", "value", "message"), [
    ("w", np.ones(3, np.float32), r"params: 'w': got float32 of shape \(3,\); expected Tensor\[\(4\), float32\]"),
    ("w", np.ones(4), r"params: 'w': got float64 of shape \(4,\)"),
    ("w", [[1], [1, 2]], "params: 'w': got list; expected an array of numbers or strings"),
    ("w", None, "params: 'w': got "),
    ("v", np.ones(4, np.float32), "params: 'v' names no input of @main; expected one of: x, w"),
])  # fmt: skip
def test_what_is_assigned_to_params_must_fit(name: str, value: Any, message: str) -> None:
    ir = example()
    changes: list[Callable[[], Any]] = [
        lambda: ir.params.__setitem__(name, value), lambda: ir.params.update({name: value}),
        lambda: ir.params.__ior__({name: value}), lambda: forge.IRModule(TEXT, {name: value}),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(InvalidGraphError, match=message):
            change()
    assert list(ir.params) == ["w"] and ir.params["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("params", [[np.ones(4)], "w", 3])
def test_params_are_given_by_name(params: Any) -> None:
    with pytest.raises(OptionError, match=r"IRModule: params: got .*; expected arrays by name of input"):
        forge.IRModule(TEXT, params)


def test_setdefault_binds_an_input_that_is_free() -> None:
    ir = forge.IRModule(TEXT)
    assert ir.params.setdefault("w", np.ones(4, np.float32)).tolist() == [1, 1, 1, 1]
    assert ir.params.setdefault("w", np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]


def test_a_copy_of_params_is_a_plain_dictionary_of_the_same_arrays() -> None:
    params = example().params
    for plain in (params.copy(), params | {}, copy.copy(params), copy.deepcopy(params)):
        assert type(plain) is dict and plain["w"].tolist() == [0, 1, 2, 3]


def test_set_data_takes_a_copy_of_what_the_caller_can_write_to() -> None:
    ir, own = example(), np.zeros(4, np.float32)
    with ir.edit() as e:
        e.set_data(ir.main.find("constant"), own)
    own[...] = 1
    assert [a.tolist() for a in ir.main.constants.values()] == [[0, 0, 0, 0]]


@pytest.mark.parametrize("value", [[[1], [1, 2]], {}, None])
def test_set_data_takes_arrays_only(value: Any) -> None:
    ir = example()
    expected = r"set_data: node .*: got \w+; expected an array of numbers or strings"
    with pytest.raises(InvalidGraphError, match=expected), ir.edit() as e:
        e.set_data(ir.main.find("constant"), value)


def test_one_array_in_two_constants_is_written_once() -> None:
    graph = Graph()
    builder = Builder(graph)
    x = builder.input(TensorType((4,), "float32"), "x")
    shared = np.ones(4, np.float32)
    graph.outputs = [builder.call("add", builder.call("add", x, builder.constant(shared)), builder.constant(shared))]
    assert len(print_with_constants(Module(graph)).constants) == 1
