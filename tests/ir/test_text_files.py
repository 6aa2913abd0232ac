"""Modules as text files with their weights next to them, and as pickles."""

from __future__ import annotations

import copy
import os
import pickle  # noqa: TID251 - that modules may be pickled is what is tested
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import forge
from forge.errors import ImportModelError, InvalidGraphError

TEXT = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4), float32]) {
  %0 = add(%x, %w) /* name="sum" results=["s"] */;
  multiply(%0, meta[relay.Constant][0] /* name="scale" */)
}
#[metadata]
{"relay.Constant": [{"dtype": "float32", "shape": [4], "data": "AACAPwAAAEAAAEBAAACAQA=="}]}
"""


def example() -> forge.IRModule:
    return forge.IRModule(TEXT, {"w": np.arange(4, dtype=np.float32)})


def same(a: forge.IRModule, b: forge.IRModule) -> bool:
    return a == b and a.fingerprint == b.fingerprint and str(a.typed_mod) == str(b.typed_mod) and list(a.params) == list(b.params)


@pytest.mark.parametrize("name", ["m.relay", "m.txt"])
def test_text_is_read_back_with_its_weights(name: str, tmp_path: Path) -> None:
    example().save(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, f"{name}.safetensors"]
    assert (tmp_path / name).read_text().startswith("def @main(%x: Tensor[(n, 4), float32]")
    again = forge.load(tmp_path / name)
    assert same(again, example()) and again.main.find("sum").op == "add"


def test_text_without_constants_needs_no_weights(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_text("def @main(%x: float32) { nn.relu(%x) }")
    assert forge.load(tmp_path / "m.relay").operators == {"nn.relu": 1}


def test_text_may_hold_its_constants(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_text(TEXT)
    (tmp_path / "m.relay.safetensors").write_bytes(b"of another time")
    assert list(forge.load(tmp_path / "m.relay").main.constants) == ["scale"]


def test_text_that_was_edited_by_hand_is_read_with_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "m.relay"
    example().save(path)
    path.write_text(path.read_text().replace("add(", "subtract("))
    again = forge.load(path)
    assert again.operators == {"multiply": 1, "subtract": 1} and again.params["w"].tolist() == [0, 1, 2, 3]


def without_weights(path: Path) -> None:
    path.with_name("m.relay.safetensors").unlink()


def weights_of_another_model(path: Path) -> None:
    forge.IRModule("def @main(%x: float32) { nn.relu(%x) }").save(path.with_name("o.relay"))
    path.with_name("o.relay.safetensors").rename(path.with_name("m.relay.safetensors"))


def damaged_weights(path: Path) -> None:
    path.with_name("m.relay.safetensors").write_bytes(b"\1" * 20)


def weights_of_another_program(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"constant.0": np.ones(4, np.float32)}, path.with_name("m.relay.safetensors"))


def wrong_text(path: Path) -> None:
    path.write_text("def @main(")


def unknown_operator(path: Path) -> None:
    path.write_text("def @main(%x: float32) { acme.selu(%x) }")


@pytest.mark.parametrize(("damage", "message"), [
    (without_weights, r"m.relay: line 3, column \d+: constant 0 is missing.*its weights are expected in .*m.relay.safetensors, "
                      r"which is not there; IRModule.save and 'forge export' write both"),
    (weights_of_another_model, "constant 0 is missing.*m.relay.safetensors, which has the weights of another text"),
    (damaged_weights, "m.relay.safetensors, the weights next to it: damaged, or no weights of Forge"),
    (weights_of_another_program, "m.relay.safetensors, the weights next to it: damaged, or no weights of Forge"),
    (wrong_text, "m.relay: line 1, column"),
    (unknown_operator, "unknown operator 'acme.selu'.*register operators of your own"),
    (lambda path: path.write_bytes(b"\xff"), "m.relay: not a text file"),
    (lambda path: path.unlink(), "m.relay: no such file"),
])  # fmt: skip
def test_what_cannot_be_read_says_what_is_missing(damage: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.relay"
    example().save(path)
    damage(path)
    with pytest.raises(ImportModelError, match=f"(?s){message}"):
        forge.load(path)


def test_text_alone_says_where_its_constants_are_expected() -> None:
    with pytest.raises(forge.errors.ParseError, match=r"constant 0 is missing; .*#\[metadata\] section"):
        forge.IRModule(str(example().mod))


COPIES: dict[str, Callable[[forge.IRModule], forge.IRModule]] = {
    "pickle": lambda ir: pickle.loads(pickle.dumps(ir)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "module": lambda ir: forge.IRModule(pickle.loads(pickle.dumps(ir.mod)), fold_constants=False),
    "module, deeply": lambda ir: forge.IRModule(copy.deepcopy(ir.mod), fold_constants=False),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_equal_and_on_its_own(way: str) -> None:
    ir = example()
    with ir.edit() as e:
        e.rename(ir.main.inputs[0], "y")
    again = COPIES[way](ir)
    assert same(again, ir)
    with again.edit() as e:
        e.remove(again.main.find("add"))
    assert ir.operators == {"add": 1, "multiply": 1}
    again.reload()
    assert same(again, ir)


def test_a_pickle_crosses_processes() -> None:
    code = "import pickle, sys\nir = pickle.load(sys.stdin.buffer)\nprint(ir.fingerprint, hash(ir))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "runtime/src"])}
    command, data = [sys.executable, "-c", code], pickle.dumps(example())
    done = subprocess.run(command, input=data, capture_output=True, check=True, env=environment)
    assert done.stdout.decode().split() == [example().fingerprint, str(hash(example()))]


def test_a_pickle_is_bytes_of_a_saved_module(tmp_path: Path) -> None:
    example().save(tmp_path / "m.forge")
    _, (data,) = example().__reduce__()
    assert data == (tmp_path / "m.forge").read_bytes()


def test_a_pickle_of_an_earlier_version_is_read() -> None:
    pickled = pickle.dumps(example().mod, protocol=0)
    earlier = pickled.replace(b"cforge.ir.saved.serialize\n", b"cforge.ir.serialize\n")
    assert earlier != pickled
    assert str(pickle.loads(earlier)) == str(example().mod)


def test_a_pickle_with_an_operator_that_is_not_registered() -> None:
    from forge.ir import op

    forge.define_operator("acme.once", lambda x: x, element=lambda x: x)
    data = pickle.dumps(forge.IRModule("def @main(%x: Tensor[(n), float32]) { acme.once(%x) }"))
    del op.REGISTRY["acme.once"]
    with pytest.raises(ImportModelError, match=r"a pickled module: .*unknown operator 'acme.once'[\s\S]*forge.define_operator"):
        pickle.loads(data)


def test_a_damaged_module_is_not_pickled() -> None:
    ir = example()
    ir.main.nodes.remove(ir.main.nodes[-1])
    with pytest.raises(InvalidGraphError, match="is not defined in the graph"):
        pickle.dumps(ir)
