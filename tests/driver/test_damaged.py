"""Modules that were damaged by hand: whatever would compile, run or write one says which node breaks which rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import InvalidGraphError
from forge.ir import TensorType, Value

TEXT = """
def @main(%x: Tensor[(1, 2, 6, 6), float32]) {
  %0 = nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2]) /* name="pool" */;
  %1 = nn.relu(%0) /* name="relu" */;
  add(%1, 1f) /* name="sum" */
}
"""


def attributes(ir: forge.IRModule) -> None:
    node = ir.main.find("pool")
    node.attrs = replace(node.attrs, pool_size=(3, 3))


def value_type(ir: forge.IRModule) -> None:
    ir.main.find("relu").result.type = TensorType((1, 2, 9, 9), "float32")


def input_type(ir: forge.IRModule) -> None:
    ir.main.inputs[0].type = TensorType((1, 2, 2, 2), "float32")


def node_removed(ir: forge.IRModule) -> None:
    ir.main.nodes.remove(ir.main.find("relu"))


def operand_rewired(ir: forge.IRModule) -> None:
    ir.main.find("sum").operands[0] = ir.main.inputs[0]


def foreign_output(ir: forge.IRModule) -> None:
    ir.main.outputs = [Value(TensorType((1,), "float32"), "lost")]


DAMAGES: dict[Callable[[forge.IRModule], None], str] = {
    attributes: r"@main: node pool \(nn.max_pool2d\): result 0 has type Tensor\[\(1, 2, 3, 3\), float32\]; the operator gives",
    value_type: r"@main: node relu \(nn.relu\): result 0 has type Tensor\[\(1, 2, 9, 9\), float32\]; the operator gives",
    input_type: r"@main: node pool \(nn.max_pool2d\): result 0 has type .*; the operator gives Tensor\[\(1, 2, 1, 1\)",
    node_removed: r"@main: node sum \(add\): operand 0 \(result 0 of relu \(nn.relu\)\) is not defined before it",
    operand_rewired: r"@main: node sum \(add\): result 0 has type .*; the operator gives Tensor\[\(1, 2, 6, 6\), float32\]",
    foreign_output: "@main: output %lost is not defined in the graph",
}

USES: dict[str, Callable[[forge.IRModule, Path], Any]] = {
    "compile": lambda ir, folder: ir.compile(output_path=folder / "out"),
    "compiled function": lambda ir, folder: ir.get_inference_function(),
    "reference function": lambda ir, folder: ir.get_inference_function("reference"),
    "executor": lambda ir, folder: forge.create_executor("graph", ir),
    "save": lambda ir, folder: ir.save(folder / "out"),
    "to_onnx": lambda ir, folder: ir.to_onnx(folder / "out"),
    "tune": lambda ir, folder: ir.tune(seconds=0),
    "typed_mod": lambda ir, folder: ir.typed_mod,
    "copy": lambda ir, folder: ir.copy(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_module_is_refused(damage: Callable[[forge.IRModule], None], use: str, tmp_path: Path) -> None:
    ir = forge.IRModule(TEXT)
    damage(ir)
    with pytest.raises(InvalidGraphError, match=DAMAGES[damage]):
        USES[use](ir, tmp_path)
    assert not list(tmp_path.iterdir())


def test_reload_mends_it() -> None:
    ir = forge.IRModule(TEXT)
    attributes(ir)
    ir.reload()
    assert ir.get_inference_function("reference")(np.zeros((1, 2, 6, 6), np.float32)).shape == (1, 2, 3, 3)


@pytest.mark.parametrize("damage", [node_removed, foreign_output])
def test_a_damaged_module_has_no_fingerprint(damage: Callable[[forge.IRModule], None]) -> None:
    ir = forge.IRModule(TEXT)
    damage(ir)
    for read in (lambda: ir.fingerprint, lambda: hash(ir)):
        with pytest.raises(InvalidGraphError, match=DAMAGES[damage]):
            read()
