"""The files in ``data``, which need no jax."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from forge.errors import ImportModelError
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.exported import read_exported
from forge.frontends.stablehlo.text import read_text
from tests.frontends.stablehlo.comparison import difference

DATA = Path(__file__).parent / "data"
ARTIFACTS = sorted(path.name for path in DATA.glob("*.bc"))


@pytest.mark.parametrize("name", ARTIFACTS)
def test_an_artifact_is_the_module_of_its_text(name: str) -> None:
    text = DATA / f"{name.partition('.')[0]}.mlir"
    found = read_bytecode((DATA / name).read_bytes(), name)
    assert found.version is not None or name == "quantized.mlir.bc"  # which StableHLO's own writer did not write
    assert difference(read_text(text.read_text(), text.name), found) == ""


def test_what_jax_exports_has_names_and_shapes() -> None:
    found = read_exported((DATA / "many_results.jaxexport").read_bytes(), "many_results")
    assert difference(read_text((DATA / "many_results.mlir").read_text(), "text"), found.module) == ""
    assert [entry.name for entry in found.inputs] == ["args[0]"]
    assert [entry.name for entry in found.results] == ["result['a'][0]", "result['a'][1]", "result['b'][0]"]
    assert {(entry.shape, entry.dtype) for entry in (*found.inputs, *found.results)} == {((3,), "float32")}


def test_bytecode_is_no_other_file() -> None:
    with pytest.raises(ImportModelError, match="is not bytecode of MLIR"):
        read_bytecode(b"module {}", "model")
    with pytest.raises(ImportModelError, match="version 40 of MLIR's bytecode; expected 6 at most"):
        read_bytecode(b"ML\xefR\x51", "model")


def test_names_of_operations_of_a_newer_version_are_said() -> None:
    data = (DATA / "special_floats.1.8.0.mlir.bc").read_bytes().replace(b"constant_v1\0", b"constant_v9\0")
    with pytest.raises(ImportModelError, match=r"vhlo.constant_v9: .*expected a portable artifact of StableHLO up to 1.20"):
        read_bytecode(data, "model")


def test_bytecode_of_other_dialects_is_refused_by_name() -> None:
    data = (DATA / "special_floats.1.8.0.mlir.bc").read_bytes().replace(b"vhlo\0", b"mhlo\0")
    with pytest.raises(ImportModelError, match=r"mhlo.func_v1: got properties .* expected a portable artifact: write"):
        read_bytecode(data, "model")


def test_readers_import_no_jax() -> None:
    import subprocess

    script = (
        "import sys; from forge.frontends.stablehlo.text import read_text; from forge.frontends.stablehlo.exported import *; "
        f"read_exported(open({str(DATA / 'many_results.jaxexport')!r}, 'rb').read(), 'x'); "
        "assert not {'jax', 'jaxlib', 'flatbuffers'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", script], check=True)
