"""Instruction sets: what they say of themselves is what code generation has, and nothing else asks for a feature."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from forge.codegen.isa import instructions
from forge.target import Target
from forge.target.isa import AARCH64, ARCHITECTURES, X86_64, Architecture
from forge.tir.stmt import TILE_DOTS

SOURCES = Path(__file__).parent.parent.parent / "src" / "forge"
OWN = (SOURCES / "target" / "isa", SOURCES / "codegen" / "isa")
NATIVE = re.compile(r"\b(x86|aarch64)\.\w|(?<![\w-])(avx|sse\d)")
CPUS = [pytest.param(architecture, cpu, id=cpu) for architecture in ARCHITECTURES for cpu in architecture.cpus]


def _questions(path: Path) -> list[str]:
    """What a file asks of an instruction set by name: features, native instructions, architectures."""
    found = []
    known = {feature for architecture in ARCHITECTURES for feature in architecture.known}
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="has"), args=[ast.Constant(value=str(name)), *_]) if name in known:
                found.append(f"{path.name}:{node.lineno} asks for {name}")
            case ast.Compare(left=ast.Attribute(attr="arch"), comparators=[ast.Constant(), *_]):
                found.append(f"{path.name}:{node.lineno} asks for an architecture")
            case ast.Constant(value=str(text)) if id(node) not in docstrings and NATIVE.search(text):
                found.append(f"{path.name}:{node.lineno} names {text}")
    return found


def test_nothing_else_asks_for_a_feature() -> None:
    others = [path for path in SOURCES.rglob("*.py") if not path.is_relative_to(OWN[0]) and not path.is_relative_to(OWN[1])]
    assert len(others) > 500
    assert [question for path in others for question in _questions(path)] == []


def test_a_question_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text('"""Uses avx2."""\ntarget.has("avx2")\ntarget.arch == "x86_64"\nname = "x86.avx2.permps"\n')
    assert sorted(question.split(" ", 1)[1] for question in _questions(path)) == [
        "asks for an architecture", "asks for avx2", "names avx2", "names x86.avx2.permps"]


@pytest.mark.parametrize("architecture, cpu", CPUS)
def test_an_instruction_set_has_what_it_says(architecture: Architecture, cpu: str) -> None:
    target = Target.parse({"kind": "llvm", "mtriple": architecture.triple, "mcpu": cpu})
    isa, native = target.isa, instructions(target)
    assert {lanes for lanes in (2, 4, 8, 16) if native.find("permute", "float32", lanes)} == isa.permuted_lanes
    whole = target.lanes("float32")
    for operation, left, right, out in (("dot_u8s8", "uint8", "int8", "int32"), ("dot_bf16", "bfloat16", "bfloat16", "float32")):
        assert (isa.dot(left, right) is None) == (native.find(operation, out, whole) is None)
    multiplied = {left for operation, (left, *_) in TILE_DOTS.items() if native.find(f"tiles_{operation}")}
    assert multiplied == isa.tiles
    assert isa.vector_bits in (128, 256, 512) and isa.vector_registers in (16, 32)
    assert not isa.masked_bytes or isa.has_masks([8]) and isa.has_masks([1]) == (isa.masked_bytes == 1)


def test_features_bring_what_they_require() -> None:
    for architecture in ARCHITECTURES:
        for name, cpu in architecture.cpus.items():
            assert set(architecture.canonical(cpu.features)) >= set(cpu.features) | set(architecture.baseline), name
        assert architecture.known >= set(architecture.requires)
        assert all(level in architecture.cpus for level in architecture.levels)


@pytest.mark.parametrize("architecture, cpuinfo, name", [
    (X86_64, "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\n", "znver5"),
    (X86_64, "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\n", "znver4"),
    (X86_64, "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\n", "znver3"),
    (X86_64, "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\n", "sapphirerapids"),
    (X86_64, "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nflags : avx512_vnni\n", "cascadelake"),
    (X86_64, "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nflags : avx2\n", "skylake-avx512"),
    (X86_64, "vendor_id : Other\ncpu family : 6\nmodel : 143\n", ""), (X86_64, "", ""),
    (AARCH64, "CPU implementer : 0x41\nCPU part : 0xd0c\n", "neoverse-n1"), (AARCH64, "", "")])
def test_a_machine_is_known_by_its_cpuinfo(architecture: Architecture, cpuinfo: str, name: str) -> None:
    assert architecture.host_cpu(cpuinfo) == name
    assert not name or name in architecture.cpus
