"""Partitions: what becomes a function, that no cycle arises, and that results stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import forge
from forge import dims
from forge.ir.builder import Builder
from forge.ir.call import CALL
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.nodes import Node
from forge.ir.types import TensorType
from forge.passes import partition
from forge.passes.partition_for_tensorrt import is_supported

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def network(batch: dims.Dim = 2) -> Module:
    """conv -> relu -> a sort in one of two branches -> concatenate -> mean."""
    b = Builder()
    x = b.input(TensorType((batch, 3, 8, 8), "float32"), "x")
    weight = b.constant(np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32))
    h = b.call("nn.conv2d", x, weight, channels=4, kernel_size=(3, 3), padding=(1, 1), name="conv")
    h = b.call("nn.relu", h, name="relu")
    ordered = b.call("sort", h, axis=-1, name="sort")
    left = b.call("tanh", h, name="tanh")
    joined = b.call("concatenate", b.call("exp", ordered, name="exp"), left, axis=1, name="joined")
    mean = b.call("mean", joined, axis=(2, 3), name="mean")
    mean.name = "y"
    return Module(b.output(mean))


def names(module: Module, function: str) -> set[str]:
    return {n.name for n in module.graphs[function] if n.op != "constant"}


def test_regions_are_as_large_as_they_can_be_without_a_cycle() -> None:
    module = network()
    assert partition.run(module, "other", lambda node: node.op != "sort") == 2
    assert names(module, "other_main_0") == {"conv", "relu", "tanh"}
    assert names(module, "other_main_1") == {"exp", "joined", "mean"}
    assert [n.op for n in module.main] == ["call", "sort", "call"]
    assert module.graphs["other_main_0"].attributes["Compiler"] == "other"
    np.testing.assert_array_equal(run_module(module, {"x": X})[0], run_module(network(), {"x": X})[0])


def test_what_is_not_supported_stays_and_keep_decides() -> None:
    module = network()
    assert partition.run(module, "b", lambda node: node.op in ("nn.relu", "exp"), lambda nodes, inputs: nodes[0].op == "exp") == 1
    assert names(module, "b_main_0") == {"exp"}
    assert partition.run(network(), "b", lambda node: False) == 0


def test_regions_join_where_only_stages_differ() -> None:
    """%a goes through an unsupported node into the first operand of add, but the second operand's chain may still join add."""
    b = Builder()
    x = b.input(TensorType((4,), "float32"), "x")
    slow = b.call("sort", b.call("exp", x, name="exp"), name="sort")
    b_side = b.call("tanh", x, name="tanh")
    module = Module(b.output(b.call("add", slow, b_side, name="add")))
    assert partition.run(module, "b", lambda node: node.op != "sort") == 2
    assert names(module, "b_main_1") == {"tanh", "add"}


def test_symbolic_batch_saved_form_and_native_code(tmp_path: Path) -> None:
    ir = forge.IRModule(network(dims.symbol("n")))
    assert not ir.is_tensorrt
    before = ir.get_inference_function()(X)
    ir.partition_for_tensorrt()
    assert ir.is_tensorrt and ir.subgraph_count == 2
    np.testing.assert_allclose(ir.get_inference_function()(X), before, rtol=1e-5, atol=1e-6)
    ir.save(tmp_path / "parts.forge")
    again = forge.load(tmp_path / "parts.forge")
    assert again.is_tensorrt and again == ir
    ir.inline_partitions()
    assert not ir.is_tensorrt and ir.subgraph_count == 0
    assert not any(n.op_def is CALL for n in ir.main)
    np.testing.assert_allclose(ir.get_inference_function()(X), before, rtol=1e-5, atol=1e-6)


def test_constructor_inlines_partitions() -> None:
    ir = forge.IRModule(network())
    ir.partition_for_tensorrt()
    assert forge.IRModule(ir, inline_partitions=True).subgraph_count == 0 and ir.subgraph_count == 2


def test_regions_without_arithmetic_stay_unless_asked_for() -> None:
    b = Builder()
    x = b.input(TensorType((2, 4), "float32"), "x")
    module = Module(b.output(b.call("nn.relu", x)))
    ir = forge.IRModule(module)
    ir.partition_for_tensorrt()
    assert ir.subgraph_count == 0
    ir.partition_for_tensorrt(remove_no_mac_subgraphs=False)
    assert ir.subgraph_count == 1


def rewritable() -> Module:
    """A stack, a batched product by one matrix and a scalar addition."""
    b = Builder()
    x = b.input(TensorType((2, 5, 3), "float32"), "x")
    scaled = b.call("add", x, b.constant(np.float32(2)))
    matrix = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    product = b.call("nn.batch_matmul", scaled, b.constant(np.broadcast_to(matrix, (2, 3, 4)).copy()))
    return Module(b.output(b.call("mean", b.call("stack", product, product, axis=1), axis=(1,))))


@pytest.mark.parametrize(("flag", "op"), [
    ("remove_stacks", "stack"), ("simplify_batch_matmul", "nn.batch_matmul"), ("simplify_scalar_add", "add")])
def test_each_flag_changes_one_thing(flag: str, op: str) -> None:
    data = np.random.default_rng(3).standard_normal((2, 5, 3)).astype(np.float32)
    expected = run_module(rewritable(), {"x": data})[0]
    with_all, without = forge.IRModule(rewritable()), forge.IRModule(rewritable())
    with_all.partition_for_tensorrt()
    without.partition_for_tensorrt(**{flag: False})
    assert with_all.subgraph_count == 1 and len(list(with_all.main)) == 1
    if op == "add":
        assert any(n.op == "add" for n in without.main)
    else:
        assert op in without.operators and op not in with_all.operators
    for ir in (with_all, without):
        np.testing.assert_allclose(ir.get_inference_function("reference")(data), expected, rtol=1e-5)
        np.testing.assert_allclose(ir.get_inference_function()(data), expected, rtol=1e-5)


def unsupported() -> Iterator[tuple[str, Module]]:
    def module(op: str, shape: tuple[int, ...] = (2, 3, 8, 8), dtype: str = "float32", **attributes: object) -> Module:
        b = Builder()
        return Module(b.output(b.call(op, b.input(TensorType(shape, dtype), "x"), **attributes)))

    yield "double precision", module("tanh", dtype="float64")
    yield "an operator that is not in the table", module("sort")
    yield "a reduction over the batch", module("sum", axis=(0, 1))
    yield "a reduction over everything", module("sum")
    yield "a transpose of the batch", module("transpose", axes=(1, 0, 2, 3))
    yield "a reshape of the batch", module("reshape", newshape=(6, 8, 8))
    yield "softmax over the batch", module("nn.softmax", axis=0)
    yield "dilated pooling", module("nn.max_pool2d", pool_size=(2, 2), dilation=(2, 2))
    yield "channels last", module("nn.max_pool2d", pool_size=(2, 2), layout="NHWC")
    yield "padding of channels", module("nn.pad", pad_width=((0, 0), (1, 0), (0, 0), (0, 0)))
    yield "an expanded batch", module("expand_dims", axis=0)
    yield "a slice of the batch", module("strided_slice", begin=(0,), end=(1,), strides=(1,), axes=(0,))


@pytest.mark.parametrize(("what", "module"), list(unsupported()), ids=[what for what, _ in unsupported()])
def test_tensorrt_refuses(what: str, module: Module) -> None:
    assert not any(is_supported(node) for node in module.main)


def test_failure_changes_nothing() -> None:
    ir = forge.IRModule(network())

    def fail(node: Node) -> bool:
        raise RuntimeError("predicate")

    text = str(ir.mod)
    with pytest.raises(RuntimeError, match="predicate"):
        ir.partition("b", fail)
    assert str(ir.mod) == text


def test_random_partitions_keep_results() -> None:
    """Whatever is supported, there is no cycle and the results are the same."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        b = Builder()
        values = [b.input(TensorType((3,), "float32"), "x")]
        for _ in range(12):
            left, right = (values[rng.integers(len(values))] for _ in range(2))
            values.append(b.call("add", left, right) if rng.random() < 0.6 else b.call("tanh", left))
        outputs = [v for v in values[1:] if not v.uses]
        module = Module(b.output(*outputs))
        feed = {"x": np.linspace(-1, 1, 3, dtype=np.float32)}
        expected = run_module(module, feed)
        chosen = {id(n) for n in module.main if rng.random() < 0.6}
        partition.run(module, "b", lambda node, chosen=chosen: id(node) in chosen)
        for found, wanted in zip(run_module(module, feed), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        ids = {n.op for n in module.main}
        assert "call" in ids or not chosen
