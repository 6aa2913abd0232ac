"""Tile registers without the hardware: a C library whose functions stand in for the instructions."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from forge.target import Target

EMULATED = "-mattr=+amx-emulated"
TARGETS = [f"llvm -mcpu=x86-64-v3 {EMULATED}", *(["llvm"] if Target.parse("llvm").isa.tiles else [])]
"""Emulated registers, and those of this machine if it has any."""


@cache
def load() -> ctypes.CDLL:
    """Compiles and loads the library: code that is loaded after it finds its functions."""
    library = Path(mkdtemp()) / "tiles.so"
    source = Path(__file__).with_name("tiles.c")
    command = ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.forge_tile_products.restype = ctypes.c_int64
    return loaded


def expect(products: Callable[[], int], target: str, used: bool = True) -> None:
    """Checks whether products of tiles were computed, which only emulated ones are counted of."""
    assert EMULATED not in target or (products() > 0) == used


def without(target: str) -> str:
    """The same target without tile registers."""
    return target.replace(EMULATED, "") if EMULATED in target else f"{target} -mattr=-amx-tile"
