"""A small model that shows a difference, as files: the model, its inputs, and a script."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import OptionError
from forge.files import replacing
from forge.ir.graph import Graph, Module
from forge.ir.saved import serialize
from forge.options import CompileOptions, options_of

_SCRIPT = '''"""{title}"""

from pathlib import Path

import forge
from forge.numerics import {function}, difference, read_inputs

here = Path(__file__)
module = forge.load(here.with_suffix(".forge"))
inputs = read_inputs(here.with_suffix(".npz"), module)
expected = module.get_inference_function("reference")(inputs)
found = {found}
d = difference(expected, found)
print(module)
print(f"largest difference {{d.error:.3g}}, {{d.relative:.3g}} of the largest element; SQNR {{d.sqnr:.1f}} dB")
'''


@dataclass(frozen=True)
class Reproducer:
    """A graph and inputs, with which it differs.

    Attributes:
        stage: after which the interpreter differs; empty: machine code of the graph as it is does.
        options: with which that is compiled.
    """

    graph: Graph
    inputs: Sequence[Any]
    stage: str
    options: CompileOptions

    def write(self, path: str | PathLike[str], title: str = "Shows a difference.") -> list[Path]:
        """Writes ``PATH.forge``, ``PATH.npz`` and ``PATH.py``, which prints the difference; the three files.

        Raises:
            OptionError: an input is not a tensor; OSError: a file cannot be written.
        """
        base = Path(path)
        files = [base.with_name(base.name + suffix) for suffix in (".forge", ".npz", ".py")]
        serialize.save(Module(self.graph.copy()), files[0])
        arrays = {v.name: _storable(v.name, a) for v, a in zip(self.graph.inputs, self.inputs)}
        with replacing(files[1]) as stream, zipfile.ZipFile(stream, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
        with replacing(files[2]) as stream:
            stream.write(self.script(title).encode())
        return files

    def script(self, title: str) -> str:
        given = "".join(f", {name}={value!r}" for name, value in _given(self.options).items())
        if self.stage:
            changed = f'after_stage(module, "{self.stage}"{given})'
            function, call = "after_stage", f'{changed}.get_inference_function("reference")(inputs)'
        else:
            function, call = "compiled_as_is", f"compiled_as_is(module{given})(inputs)"
        return _SCRIPT.format(title=title.replace("\\", " ").replace('"', "'"), function=function, found=call)


def read_inputs(path: str | PathLike[str], module: Any) -> dict[str, np.ndarray]:
    """Reads the inputs that a reproducer was written with, by name, in the types that ``module`` has.

    Raises:
        OptionError: one is missing.
    """
    with np.load(path, allow_pickle=False) as stored:
        missing = [name for name in module.input_names if name not in stored]
        if missing:
            raise OptionError(f"read_inputs: {path}: input {missing[0]!r} is missing; got {', '.join(stored)}")
        return {v.name: stored[v.name].astype(dtypes.numpy_dtype(v.dtype)) for v in module.input_nodes}


def _storable(name: str, array: Any) -> np.ndarray:
    """The array in a type that NumPy's files keep."""
    if not isinstance(array, np.ndarray):
        raise OptionError(f"reproducer: input {name!r}: got {type(array).__name__}; expected a tensor; it is not written")
    if array.dtype == object:
        return array.astype(np.str_)
    own = array.dtype.kind != "V" and array.dtype.isbuiltin == 1
    return array if own else array.astype(np.float32 if dtypes.is_float(dtypes.canonical(array.dtype)) else np.int8)


def _given(options: CompileOptions) -> dict[str, Any]:
    """Options that are not the defaults, as keywords of `check_options`."""
    found: dict[str, Any] = {}
    for known in options_of(CompileOptions):
        value = getattr(options, known.name)
        if known.name not in ("target", "host", "tuned") and value != known.default:
            found[known.name] = value
    return found if options.target == CompileOptions().target else {"target": str(options.target), **found}
