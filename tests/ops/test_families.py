"""Optional families of operators: loaded when first used, and the core does not need them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import forge.ops
from forge.ops import OPTIONAL_FAMILIES

SOURCES = Path(forge.ops.__file__).parents[2]
PROGRAM = """
import sys
import forge.driver.compiler
from forge.ir.op import REGISTRY, all_ops
core = set(REGISTRY)
print(*(name for name in sys.modules if name.startswith("forge.ops.") and sys.modules[name]))
print(*sorted(op.name for op in all_ops() if op.name not in core))
"""


def run(sources: Path = SOURCES) -> tuple[set[str], set[str]]:
    """The modules of operators that the compiler imports from ``sources``, and the operators that load on first use."""
    path = os.pathsep.join([str(sources), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    modules, operators = done.stdout.splitlines()
    return set(modules.split()), set(operators.split())


def tables() -> dict[str, dict[str, tuple[str, ...]]]:
    return {family: import_module(f"forge.ops.{family}").OPERATORS for family in OPTIONAL_FAMILIES}


def test_families_register_what_they_declare_when_it_is_used() -> None:
    imported, operators = run()
    declared = [name for table in tables().values() for names in table.values() for name in names]
    assert sorted(declared) == sorted(operators)
    assert not imported & {module for table in tables().values() for module in table}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", OPTIONAL_FAMILIES)
def test_without_its_folder_a_family_is_unknown(family: str, tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.rmtree(tmp_path / "src" / "forge" / "ops" / family)
    others = {name for other, table in tables().items() if other != family for names in table.values() for name in names}
    assert run(tmp_path / "src") == (run()[0] - {f"forge.ops.{family}"}, others)
