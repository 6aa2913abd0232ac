"""Programs that others wrote or exported, with their results: ``python -m tests.frontends.stablehlo.real_files WORD ...``.

They are StableHLO's own test data, those by which jax checks that old exports still run, and models that were published as
StableHLO. Only names that have one of the words are taken. Files come from the commits below, by git, into a folder of the cache.

Among them: ``pt_bert.mlir`` and ``pt_bert.mlir.bc`` (by torch-xla), ``jax_resnet_50.mlir``, ``searchless_chess_9m.mlir`` and
``searchless_chess_9m.mlir.bc`` (by jax), which give what jaxlib gives.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import forge
from forge.errors import ForgeError, OpNotImplemented
from forge.frontends.stablehlo.module import Operation, StablehloModule, Symbol, TensorType, Type, Value
from forge.frontends.stablehlo.sources import read
from tests.frontends.stablehlo.against_jax import assert_close, results

_CONSTANT_CHECK = re.compile(r"(check\.expect(?:_almost)?_eq_const) (%\S+), ((?:(?! : ).)+) : ([^\s()]+)", re.DOTALL)
_GENERIC = r'"\1"(\2) {value = \3 : \4} : (\4) -> ()'
"""The generic form of a check against a constant."""
BACK_COMPATIBILITY = "jax._src.internal_test_util.export_back_compat_test_data"
SLOW = 20
"""Seconds of compilation that are said."""


@dataclass(frozen=True)
class Repository:
    """Files of a commit.

    Attributes:
        folder: those in it are taken.
    """

    name: str
    commit: str
    folder: str

    @property
    def kept(self) -> Path:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return base / "forge-tests" / "stablehlo" / self.name.replace("/", "-") / self.commit

    def files(self) -> list[Path]:
        """The files, fetched unless they are there."""
        if not (self.kept / self.folder).is_dir():
            self.kept.mkdir(parents=True, exist_ok=True)
            self._git("init", "--quiet")
            self._git("fetch", "--quiet", "--depth=1", "--filter=blob:none", f"https://github.com/{self.name}", self.commit)
            self._git("checkout", "--quiet", self.commit, "--", self.folder)
        return sorted(path for path in (self.kept / self.folder).rglob("*") if path.name.endswith((".mlir", ".bc")))

    def _git(self, *command: str) -> None:
        subprocess.run(["git", "-C", str(self.kept), *command], check=True)


STABLEHLO = Repository("openxla/stablehlo", "3c9301c116f97fbaf696959a0ede32712aec587b", "stablehlo")
MODELS = Repository("GleasonK/stablehlo-exports", "96be3551832166fff5a3a80bc5a127da0f185ed3", "exports")


@dataclass(frozen=True)
class Program:
    """A module with what it is called with, and what it gives.

    Attributes:
        expected: None where each other result of the module is what is expected of the one before it.
    """

    name: str
    module: Any
    inputs: Sequence[np.ndarray]
    expected: Sequence[np.ndarray] | None = None

    def check(self, compiled: bool) -> None:
        module = forge.from_stablehlo(self.module)
        begin = time.monotonic()
        run = module.get_inference_function(*(() if compiled else ("reference",)))
        if (seconds := time.monotonic() - begin) > SLOW:
            sys.stdout.write(f"{self.name}: was compiled in {seconds:.0f} s\n")
        found = results(run(*self.inputs))
        expected = found[1::2] if self.expected is None else self.expected
        for one, other in zip(found[::2] if self.expected is None else found, expected, strict=True):
            assert_close(one, np.asarray(other), self.name)


Sources = list[tuple[str, Callable[[], Iterator[Program]]]]
"""Names of files, and what reads their programs."""


def of_test_data(path: Path) -> Iterator[Program]:
    """The programs of a file of StableHLO's test data: each function checks what it computes of what others return."""
    for number, text in enumerate(path.read_text().split("// -----")):
        if "check." in text:
            yield _program(f"{path.stem}-{number}", read(_CONSTANT_CHECK.sub(_GENERIC, text)).module)


def _program(name: str, module: StablehloModule) -> Program:
    """Constants of ``@inputs`` become arguments, and the operands of checks results."""
    function = module.functions.get("main") or next(iter(module.functions.values()))
    inputs: list[np.ndarray] = []
    compared: list[Value] = []
    kept: list[Operation] = []
    for operation in function.body.operations[:-1]:
        given = _constants(module, operation)
        if given:
            inputs += given
            function.body.arguments += operation.results
        elif str(operation.attributes.get("call_target_name")).startswith("check."):
            compared += operation.operands[:2]
        elif operation.name.startswith("check."):
            (found,) = operation.operands
            expected = Value(found.type)
            kept.append(Operation("stablehlo.constant", [], [expected], operation.attributes))
            compared += [found, expected]
        else:
            kept.append(operation)
    function.body.operations[:] = [*kept, Operation("func.return", compared)]
    function.results = [value.type for value in compared]
    function.argument_attributes, function.result_attributes = [], []
    return Program(name, module, inputs)


def _constants(module: StablehloModule, call: Operation) -> list[np.ndarray]:
    """What a call of ``@inputs`` returns; empty where it is another operation, or returns no constants."""
    callee = call.attributes.get("callee")
    if not isinstance(callee, Symbol) or callee.name != "inputs":
        return []
    body = module.functions["inputs"].body
    values = {operation.results[0]: operation.attributes.get("value") for operation in body.operations if operation.results}
    found = [values.get(value) for value in body.results]
    return [np.asarray(value) for value in found] if all(isinstance(value, np.ndarray) for value in found) else []


def of_jax() -> Iterator[Program]:
    """What jax keeps to see that exports of its older versions still run, for CPUs."""
    package = importlib.import_module(BACK_COMPATIBILITY)
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{BACK_COMPATIBILITY}.{info.name}")
        for name, value in vars(module).items():
            for label, entry in _entries(name, value):
                if entry["platform"] == "cpu":
                    inputs = [np.asarray(array) for array in entry["inputs"]]
                    yield Program(f"{info.name}-{label}", entry["mlir_module_serialized"], inputs, entry["expected_outputs"])


def _entries(name: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict) and "testdata_version" in value:
        yield name, value
    elif isinstance(value, dict | list | tuple) and name.startswith("data"):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _entries(f"{name}-{key}", inner)


def of_model(path: Path) -> Iterator[Program]:
    """A published model with random inputs, and what jaxlib gives for them. Weights that its text leaves out are all the same."""
    data = path.read_bytes().replace(b"dense_resource<__elided__>", b"dense<0.02>")
    module = read(data).module
    generator = np.random.default_rng(0)
    inputs = [_random(generator, value.type) for value in module.functions["main"].body.arguments]
    forge.from_stablehlo(data)  # what it lacks is said before jaxlib runs it
    yield Program(path.name, data, inputs, _of_jaxlib(data, inputs))


def _of_jaxlib(data: bytes, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a module gives on jax's CPU."""
    import jax
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib import _jax
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    (device, *_) = jax.devices("cpu")
    with make_ir_context():
        is_text = not data.startswith(b"ML")
        parsed = ir.Module.parse(data) if is_text else stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        run = device.client.compile_and_load(parsed, executable_devices=_jax.DeviceList((device,)))
        with jax.enable_x64(True):
            given = [jax.device_put(array, device) for array in inputs]
        return [np.asarray(array) for array in run.execute(given)]


def _random(generator: np.random.Generator, kind: Type) -> np.ndarray:
    assert isinstance(kind, TensorType)
    shape = [size or 1 for size in kind.shape]
    if np.dtype(kind.dtype).kind in "iub":
        return generator.integers(0, 2, shape).astype(kind.dtype)
    return (generator.standard_normal(shape) * 0.1).astype(kind.dtype)


def of_exported(path: Path) -> Iterator[Program]:
    """What `strangers` wrote. Numbers of 16 bits are kept in 32, and are read as the module declares them."""
    module = read(path.read_bytes()).module
    main = module.functions["main"]
    with np.load(path.with_suffix(".npz")) as arrays:
        inputs, expected = (
            [arrays[f"{word}_{k}"].astype(type_.dtype) for k, type_ in enumerate(types) if isinstance(type_, TensorType)]
            for word, types in (("input", [value.type for value in main.body.arguments]), ("output", main.results)))
    yield Program(path.stem, path, inputs, expected)


def programs(words: Sequence[str], folder: Path | None = None) -> Sources:
    """The files and what reads them, where a word is in their path; of ``folder``, if given, what `strangers` wrote there."""
    if folder is not None:
        files = sorted(folder.glob("*.jaxexport"))
        return _chosen([(path.stem, partial(of_exported, path)) for path in files], words)
    sources: Sources = [("jax", of_jax)]
    for repository, how in ((STABLEHLO, of_test_data), (MODELS, of_model)):
        sources += [(f"{repository.name}/{path.relative_to(repository.kept)}", partial(how, path)) for path in repository.files()]
    return _chosen(sources, words)


def _chosen(sources: Sources, words: Sequence[str]) -> Sources:
    return [(name, source) for name, source in sources if not words or any(word in name for word in words)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="take files only whose path has one of them; jax: what jax keeps")
    parser.add_argument("--compiled", action="store_true", help="compile the programs; otherwise their NumPy meaning is compared")
    parser.add_argument("--exported", type=Path, help="the folder of what strangers.py wrote, in place of published files")
    parser.add_argument("--part", default="0/1", help="of all files the k-th of n: k/n")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    counts = Counter[str]()
    for name, source in islice(programs(options.words, options.exported), first, None, step):
        try:
            for program in source():
                counts[_outcome(program, options.compiled)] += 1
        except ForgeError as error:
            counts["cannot be read"] += 1
            sys.stdout.write(f"{name}: {error}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")


def _outcome(program: Program, compiled: bool) -> str:
    try:
        program.check(compiled)
    except (ForgeError, AssertionError) as error:
        sys.stdout.write(f"{program.name}: {type(error).__name__}: {str(error)[:1000]}\n")
        return "not implemented" if isinstance(error, OpNotImplemented) else "wrong"
    return "right"


if __name__ == "__main__":
    main()
