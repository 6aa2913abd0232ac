"""``forge run``: one inference."""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from forge.cli import source, structures, tables
from forge.errors import OptionError
from forge.files import replacing

SHOWN = 32
"""Characters of a string that are shown."""

EXAMPLES = (
    "forge run build/ --input x.npy",
    "forge run build/ -i image=x.npy -o outputs.npz",
    "forge run model.onnx -i x.npy --threads 1 --json",
    "forge run model.onnx -i x.npy --memory-limit 2G --time-limit 60",
)


def run(
    model: Annotated[Path, typer.Argument(help="A compiled model (directory or .so), or a model to compile in memory.")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="FILE", help="FILE.npy, NAME=FILE.npy or FILE.npz.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")] = None,
    key: Annotated[Path | None, typer.Option(help="Key file of an encrypted model, if not next to it.")] = None,
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Number of threads.")] = None,
    memory_limit: Annotated[str | None, typer.Option(metavar="BYTES", help="Memory for the run, as in 512M.")] = None,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time for the run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Runs a model once on arrays and shows the outputs.

    The elements of a sequence are called NAME[0], NAME[1], ...
    """
    memory = None if memory_limit is None else _bytes(memory_limit)
    if time_limit is not None and not 0 < time_limit < math.inf:
        raise OptionError(f"--time-limit {time_limit}: expected a positive number of seconds, as in 60 or 0.5")
    if output is not None:
        source.check_output(output, force=True)
    with source.progress(quiet=as_json) as report:
        runtime = source.open_runtime(model, key, report, shape, function).limited(memory_limit=memory, time_limit=time_limit)
        if threads is not None:
            runtime.set_num_threads(threads)
        arrays = source.load_arrays(inputs, runtime.input_names)
        given = structures.gather(arrays, runtime.input_names, runtime.input_dtypes)
        source.require_inputs(given, runtime.input_names)
        report("run", 0, 1)
        called = runtime.session() if runtime.states else runtime
        outputs = structures.spread(dict(zip(runtime.output_names, called.run(given))))
        report("run", 1, 1)
    if output is not None:
        _save(output, outputs)
    if as_json:
        described = [{"name": n, "shape": list(a.shape), "dtype": _dtype(a), **_statistics(a)} for n, a in outputs.items()]
        source.print_json(described)
        return
    numbers = ("minimum", "maximum", "mean")
    rows = []
    for name, array in outputs.items():
        cells = [x if isinstance(x, str) else f"{x:.6g}" for x in _statistics(array).values()]
        rows.append([name, source.shape_text(array.shape), _dtype(array), *cells])
    tables.show("outputs", ("name", "shape", "dtype", *numbers), rows, right=numbers, spare=("mean",))


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,17})([KMGT]?)", text, re.ASCII)
    size = 0 if match is None else int(match[1]) << 10 * ("KMGT".index(match[2]) + 1 if match[2] else 0)
    if not 0 < size < 1 << 63:
        raise OptionError(f"--memory-limit {text}: expected a positive number of bytes, as in 1000000, 512M or 2G")
    return size


def _dtype(array: np.ndarray) -> str:
    return "string" if array.dtype == object else str(array.dtype)


def _statistics(array: np.ndarray) -> dict[str, float | str]:
    """Of numbers; of strings the first and the last in the order of code points, as literals that may be cut."""
    if array.size == 0:
        return dict.fromkeys(("minimum", "maximum", "mean"), float("nan"))
    if array.dtype == object:
        return {"minimum": ascii(array.min())[:SHOWN], "maximum": ascii(array.max())[:SHOWN], "mean": float("nan")}
    values = np.abs(array) if np.iscomplexobj(array) else array.astype(np.float64)
    return {"minimum": float(values.min()), "maximum": float(values.max()), "mean": float(values.mean())}


def _save(path: Path, outputs: dict[str, np.ndarray]) -> None:
    """Writes an .npz, whole or not at all; any text may be a name."""
    with replacing(path) as target, zipfile.ZipFile(target, "w") as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, _storable(name, array), allow_pickle=False)


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """Strings as fixed-width text, which needs no pickle.

    Raises:
        OptionError: a string ends with a zero character, which that form drops.
    """
    if array.dtype != object:
        return array
    if any(text.endswith("\0") for text in array.flat):
        raise OptionError(f"--output: output {name!r} has a string that ends with a zero character, which .npz cannot keep")
    return array.astype(np.str_)
