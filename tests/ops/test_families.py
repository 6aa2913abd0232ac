"""Optional families of operators: loaded when first used, and the core does not need them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from forge.ops import OPTIONAL_FAMILIES

PROGRAM = """
import sys
for missing in sys.argv[1:]:
    sys.modules[missing] = None
import forge.driver.compiler
from forge.ir.op import REGISTRY, all_ops
core = set(REGISTRY)
print(*(name for name in sys.modules if name.startswith("forge.ops.") and sys.modules[name]))
print(*sorted(op.name for op in all_ops() if op.name not in core))
"""


def run(*missing: str) -> tuple[set[str], set[str]]:
    """The modules of operators that the compiler imports, and the operators of families where ``missing`` cannot be imported."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *missing], capture_output=True, text=True, check=True)
    modules, operators = done.stdout.splitlines()
    return set(modules.split()), set(operators.split())


def tables() -> dict[str, dict[str, tuple[str, ...]]]:
    return {family: import_module(f"forge.ops.{family}").OPERATORS for family in OPTIONAL_FAMILIES}


def test_families_register_what_they_declare_when_it_is_used() -> None:
    imported, operators = run()
    declared = [name for table in tables().values() for names in table.values() for name in names]
    assert sorted(declared) == sorted(operators)
    assert not imported & {module for table in tables().values() for module in table}


@pytest.mark.parametrize("family", OPTIONAL_FAMILIES)
def test_without_a_family_its_operators_are_unknown(family: str) -> None:
    others = {name for other, table in tables().items() if other != family for names in table.values() for name in names}
    assert run(f"forge.ops.{family}") == (run()[0] - {f"forge.ops.{family}"}, others)
