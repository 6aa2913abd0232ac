"""What an installation contains; all that is the same for every one is declared in pyproject.toml.

From sources (a checkout, ``git+...``, an sdist) it has both packages, ``forge`` and ``forge_runtime``, in one distribution:
nothing then names the runtime's distribution, so no index is asked for it, where anybody may offer something of that name.
Released wheels are two: with ``FORGE_RELEASE=1``, which scripts/build_wheels.py sets, the compiler's holds ``forge`` alone and
requires the runtime's of the same version.
"""

from __future__ import annotations

import os
import runpy
import tomllib
from pathlib import Path
from typing import Any

from setuptools import find_packages

DEPENDENCIES = [
    "numpy>=2.0",        # arrays at every boundary; the reference meaning of every operator
    "ml_dtypes>=0.5",    # bfloat16, the float8 family and sub-byte integers as NumPy types
    "llvmlite>=0.50",    # LLVM 22 with all its targets in one wheel; older ones lack them
    "onnx>=1.18",        # the ONNX format's own reader and checker
    "protobuf>=4.25",    # reads TensorFlow's messages; onnx brings it anyway
    "safetensors>=0.5",  # weights in saved modules, without pickle
    "rich>=13.7",        # tables and progress in the terminal
    "typer>=0.15",       # the command line
    "cryptography>=43",  # encrypted artifacts
]


RUNTIME = runpy.run_path("runtime/setup.py")


def contents() -> dict[str, Any]:
    """The arguments of ``setup`` that differ between an installation from sources and a released wheel."""
    runtime = tomllib.loads(Path("runtime/pyproject.toml").read_text(encoding="utf-8"))
    compiler: dict[str, Any] = {
        "packages": find_packages("src"),
        "package_dir": {"": "src"},
        "package_data": {"forge": ["py.typed", "view/page.*", "module/*.pyi", "nn/include/*/*.h", "nn/include/*/*/*.h"]},
    }
    if os.environ.get("FORGE_RELEASE") == "1":
        requirement = f"{runtime['project']['name']}=={runpy.run_path('src/forge/_version.py')['__version__']}"
        return {**compiler, "install_requires": [*DEPENDENCIES, requirement]}
    declared = runtime["tool"]["setuptools"]
    return {
        "packages": [*compiler["packages"], *declared["packages"]],
        "package_dir": {**compiler["package_dir"], "forge_runtime": "runtime/src/forge_runtime"},
        "package_data": {**compiler["package_data"], **declared["package-data"]},
        "install_requires": DEPENDENCIES,
        **RUNTIME["extension_options"]("runtime/"),
    }


RUNTIME["setup_afresh"](**contents())
