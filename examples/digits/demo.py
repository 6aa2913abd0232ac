"""The demo of ``make demo``: a real model inspected, compiled, run from Python and from C, checked and timed.

The model is a convolutional classifier of 8x8 digits with a symbolic batch size, trained by `train.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rich.box
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import forge
import forge_runtime
from forge.driver.latency import measure

FOLDER = Path(__file__).parent
BUILD = FOLDER / "build"
LIBRARY = BUILD / "modelLibrary.so"
MIN_ACCURACY = 0.97
MAX_ERROR = 1e-5

Array = NDArray[Any]


def load_pictures() -> tuple[Array, Array]:
    """The test split: pictures ``(450, 1, 8, 8)`` float32 with values from 0 to 16, and their digits."""
    with np.load(FOLDER / "digits_test.npz") as stored:
        return stored["images"].astype(np.float32), stored["labels"]


def inspect(console: Console) -> forge.IRModule:
    """Loads the model and shows what is in it."""
    module = forge.from_onnx(FOLDER / "digits.onnx")
    made = _table("1. What is in digits.onnx")
    made.add_row("inputs", _signature(module.input_names, module.input_dtypes, module.input_shapes))
    made.add_row("outputs", _signature(module.output_names, module.output_dtypes, module.output_shapes))
    made.add_row("operators", ", ".join(f"{count} {name}" for name, count in module.operators.items()))
    made.add_row("fingerprint", module.fingerprint)
    console.print(made)
    return module


def compile_library(console: Console, module: forge.IRModule) -> forge.Runtime:
    """Compiles the model into one native library and loads it."""
    start = time.perf_counter()
    module.compile(output_path=str(BUILD), force_overwrite=True)
    seconds = time.perf_counter() - start
    made = _table("2. Compiled to one native library")
    made.add_row("file", os.path.relpath(LIBRARY))
    made.add_row("size", f"{LIBRARY.stat().st_size / 1024:.0f} KiB, weights included")
    made.add_row("time", f"{seconds:.2f} s")
    console.print(made)
    return forge.Runtime(str(BUILD))


def run_c_program(images: Array) -> Array:
    """Builds `main.c` with the library, runs it on ``images`` and returns the logits it writes."""
    program, pictures, logits = BUILD / "classify", BUILD / "pictures.f32", BUILD / "logits.f32"
    compiler = os.environ.get("CC", "cc").split()
    sources = ["-I", str(forge_runtime.include_directory()), str(FOLDER / "main.c"), str(LIBRARY)]
    subprocess.run([*compiler, "-O2", *sources, f"-Wl,-rpath,{BUILD}", "-o", str(program)], check=True)
    images.tofile(pictures)
    subprocess.run([program, pictures, logits], check=True)
    return np.fromfile(logits, np.float32).reshape(len(images), -1)


def check(console: Console, answers: dict[str, Array], labels: Array) -> bool:
    """Shows accuracy and agreement with the interpreter of each way to run; True if all are good."""
    expected = answers["interpreter"]
    made = _table(f"3. Right answers on {len(labels)} test pictures", "run by", "accuracy", "largest difference")
    good = True
    for name, logits in answers.items():
        accuracy = float((logits.argmax(axis=1) == labels).mean())
        error = float(np.abs(logits - expected).max() / np.abs(expected).max())
        passed = accuracy >= MIN_ACCURACY and error <= MAX_ERROR
        good = good and passed
        made.add_row(name, f"{accuracy:.1%}", f"{error:.0e}", style="" if passed else "red")
    console.print(made)
    return good


def show_latencies(console: Console, interpret: Callable[..., Any], runtime: forge.Runtime, images: Array) -> None:
    """Times one picture and the whole batch; the same compiled code serves both."""
    one = images[:1]
    calls = {
        "interpreter, 1 picture": lambda: interpret(one),
        "compiled, 1 picture": lambda: runtime(one),
        f"interpreter, {len(images)} pictures": lambda: interpret(images),
        f"compiled, {len(images)} pictures": lambda: runtime(images),
    }
    made = _table("4. Fast: symbolic batch, compiled once", "run by", "median", "fastest")
    for name, taken in measure(calls, rounds=5).items():
        made.add_row(name, _duration(taken.median), _duration(taken.minimum))
    console.print(made)


def main() -> int:
    """Runs the demo; the exit status is 1 if an answer is wrong."""
    console = Console()
    images, labels = load_pictures()
    module = inspect(console)
    runtime = compile_library(console, module)
    interpret = module.get_inference_function(target="reference")
    answers = {
        "interpreter": _first(interpret(images)),
        "compiled, from Python": _first(runtime(images)),
        "compiled, from C": run_c_program(images),
    }
    good = check(console, answers, labels)
    show_latencies(console, interpret, runtime, images)
    console.print("All answers are right." if good else "[red]Some answers are wrong.[/red]")
    return 0 if good else 1


def _table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", box=rich.box.SIMPLE_HEAD)
    made.show_header = bool(columns)
    for column in columns or ("what", "value"):
        made.add_column(column)
    return made


def _signature(names: list[str], dtypes: list[str], shapes: list[Any]) -> str:
    described = zip(names, dtypes, shapes, strict=True)
    return ", ".join(f"{name} {dtype} ({', '.join(map(str, shape))})" for name, dtype, shape in described)


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _first(outputs: Array | list[Array]) -> Array:
    return outputs if isinstance(outputs, np.ndarray) else outputs[0]


if __name__ == "__main__":
    sys.exit(main())
