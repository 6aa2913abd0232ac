"""Arguments of the wrong kind: errors of the catalogue that say what was given and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, InvalidGraphError, OptionError, OutputPathError

TEXT = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4), float32]) {
  %0 = add(%x, %w) /* name="sum1" */;
  nn.relu(%0) /* name="relu1" */
}
"""


def example() -> forge.IRModule:
    return forge.IRModule(TEXT, {"w": np.ones(4, np.float32)})


CALLS: dict[str, Callable[[forge.IRModule, Any], Any]] = {
    "IRModule: inline_partitions": lambda ir, v: forge.IRModule(TEXT, None, v),
    "IRModule: fold_constants": lambda ir, v: forge.IRModule(TEXT, None, False, v),
    "IRModule: fold_batch_norms": lambda ir, v: forge.IRModule(TEXT, None, False, True, v),
    "IRModule": lambda ir, v: forge.IRModule(v),
    "graph": lambda ir, v: ir.edit(v),
    "rewrite": lambda ir, v: ir.rewrite(v),
    "extract: outputs": lambda ir, v: ir.extract(v),
    "extract: inputs": lambda ir, v: ir.extract(["relu1"], v),
    "partition: supported": lambda ir, v: ir.partition("b", v),
    "partition: keep": lambda ir, v: ir.partition("b", lambda node: True, v),
    "tune: seconds": lambda ir, v: ir.tune(v),
    "tune: inputs": lambda ir, v: ir.tune(0.01, v or [None]),
    "plot: graph": lambda ir, v: ir.plot(v),
    "plot": lambda ir, v: ir.plot().save(v),
    "save": lambda ir, v: ir.save(v),
    "to_onnx": lambda ir, v: ir.to_onnx(v or 0),
    "external_bytes": lambda ir, v: ir.to_onnx("out.onnx", None, v or "1k"),
    "load": lambda ir, v: forge.load([v]),
    "find, select": lambda ir, v: ir.main.find(v),
}


@pytest.mark.parametrize("value", [None, b"x", {}, [None], [3], object()], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("call", CALLS)
def test_kinds_that_are_refused(call: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((OptionError, InvalidGraphError), match=rf"{call}.*(got|does not exist)"):
        CALLS[call](example(), value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["yes", 1, 0])
def test_flags_are_bools(value: Any) -> None:
    with pytest.raises(OptionError, match=rf"IRModule: fold_constants: got {value!r}; expected True or False"):
        forge.IRModule(TEXT, fold_constants=value)


@pytest.mark.parametrize("which", [
    "relu1", ["relu1"], ("relu1",), lambda ir: ir.main.find("relu1"), lambda ir: [ir.main.find("relu1")],
    lambda ir: ir.main.find("relu1").result,
])  # fmt: skip
def test_extract_takes_one_or_several_by_name_node_or_value(which: Any) -> None:
    ir = example()
    part = ir.extract(which(ir) if callable(which) else which, "sum1")
    assert part.operators == {"nn.relu": 1} and part.input_count == 1


@pytest.mark.parametrize("write", [
    lambda ir, path: ir.save(path / "m.forge"), lambda ir, path: ir.save(path / "m.relay"),
    lambda ir, path: ir.to_onnx(path / "m.onnx"), lambda ir, path: ir.plot().save(path / "m.svg"),
])  # fmt: skip
def test_a_path_that_cannot_be_written_is_named(write: Callable[[forge.IRModule, Path], Any], tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(OutputPathError, match=rf"{missing}/m\.\w+: there is no folder {missing}; create it first") as raised:
        write(example(), missing)
    assert isinstance(raised.value, OSError) and isinstance(raised.value, ForgeError)
    for name in ("m.forge", "m.relay", "m.onnx", "m.svg"):
        (tmp_path / name).mkdir()
    with pytest.raises(OutputPathError, match=r"m\.\w+ is a folder; expected the path of a file"):
        write(example(), tmp_path)


@pytest.mark.parametrize("name", ["g.png", "g.pdf", "g", "g.svg.gz"])
def test_pictures_are_svg(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"plot: got '.*{name}'; expected a path that ends in .svg"):
        example().plot().save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    example().plot().save(tmp_path / "g.SVG")
    assert (tmp_path / "g.SVG").read_text().startswith("<svg")


def test_inputs_of_tune_must_be_all() -> None:
    ir = forge.IRModule("def @main(%x: float32, %y: float32) { add(%x, %y) }")
    with pytest.raises(OptionError, match="tune: inputs: got names y; expected arrays by name, for all of: x, y"):
        ir.tune(0.01, {"y": np.float32(1)})


def test_inputs_are_nodes_to_walk_from() -> None:
    (x,) = example().input_nodes
    assert (x.op, x.pred, x.attributes) == ("input", [], {})
    assert [node.op for node in x.succ] == ["add"] and [node.op for node in x.succ[0].succ] == ["nn.relu"]
