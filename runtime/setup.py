"""Builds the CPython extension; everything else is declared in pyproject.toml."""

from __future__ import annotations

import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CSRC = "src/forge_runtime/csrc"
NAMES = ("runtime", "pool", "cpu", "host", "load", "control", "heap", "sequence", "object", "strings", "regex", "numbers",
         "lookup", "fft", "call", "limits", "types", "bind", "session", "registry")
FILES = ("_native.c", "_call.c", "_session.c", "_dlpack.c", "_lend.c", "_strides.c", "_functions.c", "_checksums.c",
         *(f"forge_{name}.c" for name in NAMES))
HEADERS = ("forge_runtime.h", "forge_internal.h", "forge_invocation.h", "forge_heap.h", "forge_strings.h", "forge_fft.h",
           "forge_fp.h", "_fft_lines.h", "_functions.h", "_routines.h", "_dlpack.h", "_native.h")


class BuildExtension(build_ext):
    """Names the missing header before the C compiler does."""

    def run(self) -> None:
        folder = sysconfig.get_path("include")
        if not (Path(folder) / "Python.h").is_file():
            sys.exit(
                f"forge_runtime: Python.h not found in {folder}; it is needed to build the extension; "
                "install your Python's headers (Debian, Ubuntu: apt install python3-dev; Fedora: python3-devel)"
            )
        super().run()


def extension_options(folder: str = "") -> dict[str, Any]:
    """The arguments of ``setup`` that build the extension, for a project that has this one in ``folder``."""
    return {
        "options": {"bdist_wheel": {"py_limited_api": "cp311"}},
        "cmdclass": {"build_ext": BuildExtension},
        "ext_modules": [
            Extension(
                "forge_runtime._native",
                sources=[f"{folder}{CSRC}/{name}" for name in FILES],
                depends=[f"{folder}{CSRC}/{name}" for name in HEADERS],
                define_macros=[("Py_LIMITED_API", "0x030b0000")],
                extra_compile_args=["-std=c11", "-O2", "-g0", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra"],
                extra_link_args=["-pthread"],
                py_limited_api=True,
            )
        ],
    }


def setup_afresh(*, options: dict[str, Any] | None = None, **arguments: Any) -> None:
    """``setup``, in a temporary folder: one that stays in the checkout would bring modules back that were removed."""
    with tempfile.TemporaryDirectory(prefix="forge-build-") as folder:
        setup(**arguments, options={**(options or {}), "build": {"build_base": folder}})


if __name__ == "__main__":
    setup_afresh(**extension_options())
