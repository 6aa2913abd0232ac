"""A worker process: reads ``seed:number`` of mutants from standard input, one a line, and answers each with a line of JSON.

Its address space may grow by 2 GiB over what the programs themselves need; what wants more gets a MemoryError, which is a finding
even where it was made into an error of Forge.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from forge.errors import ForgeError, InternalError

MEMORY_LIMIT = 2 << 30
SECONDS = 10.0
COMPILED_SHARE = 0.04

_PYTHON_FAULT = re.compile(r"\b(\w+Error): ")
_OWN_KINDS = {"StopIteration", "AssertionError", "ZeroDivisionError", "KeyError", "IndexError", "AttributeError", "TypeError",
              "ValueError", "OverflowError", "RecursionError", "LookupError", "ArithmeticError", "FloatingPointError",
              "UnicodeDecodeError", "UnicodeEncodeError", "AxisError", "UFuncTypeError"}


class Finding(Exception):
    """A mutant that was not handled as it must be."""


def main(options: str) -> None:
    """Serves until standard input ends."""
    settings = json.loads(options)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.getLogger("forge").setLevel(logging.CRITICAL)
    from tests.frontends.onnx.fuzz.mutants import Mutants

    mutants = Mutants([Path(p) for p in settings["models"]])
    warm_up()
    limit_memory()
    print(json.dumps({"ready": True}), file=answers, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            message, note = run(mutants, line.strip(), Path(folder), settings["compiled"])
            print(json.dumps({"message": message, "note": note}), file=answers, flush=True)


def warm_up() -> None:
    """Loads what is imported lazily, before memory is limited."""
    import forge  # noqa: F401
    from forge.driver import compile_module  # noqa: F401


def limit_memory() -> None:
    """Allows ``MEMORY_LIMIT`` more bytes of address space than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run(mutants: Any, case: str, folder: Path, compiled_share: float) -> tuple[str, str]:
    """What is wrong with the treatment of a mutant, or nothing; and a note for the statistics."""
    seed, number = (int(part) for part in case.split(":"))
    mutant = mutants.make(seed, number)
    if mutant is None:
        return "", "unwritable"
    path = place(mutant.data, folder)
    begin = time.process_time()
    try:
        note = check(path, mutant.rng, compiled_share)
    except Finding as finding:
        return f"{finding} [{', '.join(mutant.steps)}]", "finding"
    seconds = time.process_time() - begin
    if seconds > SECONDS:
        return f"hang: {seconds:.1f} s [{', '.join(mutant.steps)}]", "finding"
    return "", note


def place(data: bytes, folder: Path) -> Path:
    """Writes the model into an inner folder, with files around it that external data may name."""
    inner = folder / "model"
    if not inner.exists():
        (inner / "folder").mkdir(parents=True)
        (folder / "outside.bin").write_bytes(bytes(range(256)) * 16)
        (inner / "weights.bin").write_bytes(bytes(range(256)) * 16)
        (inner / "link.bin").symlink_to(folder / "outside.bin")
        (inner / "dangling.bin").symlink_to(folder / "nothing.bin")
    path = inner / "model.onnx"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def check(path: Path, rng: Any, compiled_share: float) -> str:
    """Imports, and compiles and runs a sample of what can be imported.

    Raises:
        Finding: it ended in another way than a model or a clear error.
    """
    from forge.frontends.onnx import import_model

    module = attempt("import", lambda: import_model(path, freeze_params=rng.random() < 0.9))
    if isinstance(module, str):
        return module
    attempt("print", lambda: str(module))
    if rng.random() >= compiled_share:
        return "model"
    level = rng.choice((0, 3))
    return compile_and_run(module, level, rng)


def attempt(stage: str, action: Any) -> Any:
    """What ``action`` gives; a note where it raises a clear error.

    Raises:
        Finding: it raises anything else.
    """
    try:
        return action()
    except ForgeError as error:
        if _wants_memory(error):
            raise Finding(f"memory: {stage}: {_described(error)}") from error
        if isinstance(error, InternalError):
            raise Finding(f"internal: {stage}: {_described(error)}") from error
        refused = f" (vague: {str(error)[:200]})" if stage.startswith("compile") else _vague(error)
        return f"{stage}: {type(error).__name__}{refused}"
    except Exception as error:
        kind = "memory" if _wants_memory(error) else "exception"
        raise Finding(f"{kind}: {stage}: {_described(error)}") from error


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _wants_memory(error: BaseException) -> bool:
    return any(isinstance(e, MemoryError) for e in _chain(error))


def _described(error: BaseException) -> str:
    """The error's text and the innermost place of the original fault."""
    text = f"{type(error).__name__}: {error}"
    return f"{text[:300]!r} at {_origin(_chain(error)[-1])}"


def _origin(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/forge/" in f.filename or "/tests/" in f.filename]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[:-4:-1])


def _vague(error: ForgeError) -> str:
    """Where the error is a Python exception in disguise: which one."""
    kinds = [k for k in _PYTHON_FAULT.findall(str(error)) if k in _OWN_KINDS]
    if not kinds:
        return ""
    last = _chain(error)[-1]
    return f" (vague: {kinds[-1]} {_origin(last)}: {str(last)[:80]})"


def compile_and_run(module: Any, level: int, rng: Any) -> str:
    """Compiles, and runs on small inputs in a child process with guarded memory.

    Raises:
        Finding: neither worked nor gave a clear error.
    """
    from forge.driver import check_options, compile_module

    compiled = attempt(f"compile -O{level}", lambda: compile_module(module, check_options(opt_level=level), use_cache=False))
    if isinstance(compiled, str):
        return compiled
    from tests.frontends.onnx.fuzz.execution import feeds, run_in_child

    inputs = feeds(module, rng)
    if inputs is None or compiled.lowered is None:
        return "compiled"
    outcome = run_in_child(module, compiled, inputs)
    if outcome.startswith("finding"):
        raise Finding(f"run -O{level}: {outcome.removeprefix('finding ')}")
    return outcome


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1])
