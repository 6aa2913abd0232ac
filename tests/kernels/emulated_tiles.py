"""Tile registers without the hardware: a C library whose functions stand in for the instructions."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

EMULATED = "-mattr=+amx-emulated"


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


def without(target: str) -> str:
    """The same target without tile registers."""
    return target.replace(EMULATED, "") if EMULATED in target else f"{target} -mattr=-amx-tile"
