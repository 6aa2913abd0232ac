"""``forge quantize``: layers of a model as integers, and how near that is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forge.cli import source, tables
from forge.errors import OptionError
from forge.files import replacing

if TYPE_CHECKING:
    from forge.module import IRModule
    from forge.quantization.chosen.rounding_errors import RoundedValue
    from forge.quantization.reports.report import Report

EXAMPLES = (
    "forge quantize model.onnx --data x.npy -o int8.onnx",
    "forge quantize model.onnx --data inputs.npz --per-channel --report report.html --seconds 2",
    "forge quantize model.onnx --data x.npy --calib-method mse --exclude nn.dense --json",
)
FORMATS = (".onnx", ".forge", ".relay")
REPORTS = (".html", ".json")


def quantize(
    model: Annotated[Path, typer.Argument(help="A model (.onnx, .pt2, .forge, .relay).")],
    *,
    data: Annotated[Path, typer.Option(metavar="PATH", help="Samples: .npy or .npz, or a folder of them.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The quantized model: .onnx, .forge, .relay.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="A report: .html or .json. Tries other arguments.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="For the report: when to stop trying.")] = 60.0,
    activation_dtype: Annotated[str, typer.Option(metavar="TYPE", help="Type of activations: int8 or uint8.")] = "int8",
    kernel_dtype: Annotated[str | None, typer.Option(metavar="TYPE", help="Type of weights; else that of activations.")] = None,
    per_channel: Annotated[bool, typer.Option("--per-channel", help="A scale for each channel of a weight.")] = False,
    calib_method: Annotated[
        str, typer.Option(metavar="METHOD", help="Ranges: average, entropy, minmax, percentile, mse.")
    ] = "average",
    calib_guard: Annotated[
        bool, typer.Option("--calib-guard/--no-calib-guard", help="Keep the whole range where a cut has a larger squared error.")
    ] = True,
    bias_correction: Annotated[
        bool, typer.Option("--bias-correction/--no-bias-correction", help="Give results of layers the means of float32.")
    ] = True,
    quant_type: Annotated[
        str, typer.Option(metavar="KIND", help="static: ranges from samples; dynamic: in each call; any.")
    ] = "any",
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A layer, operator or pattern that stays in float.")
    ] = None,
    target: Annotated[str, typer.Option(metavar="TARGET", help="Of the compilation; this machine runs it.")] = "llvm",
    shape: source.ShapeOption = None,
    function: source.FunctionOption = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads, where layers are timed.")] = 1,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON document.")] = False,
) -> None:
    """Quantizes a model on samples, and compares it with what it was.

    Prints the layers, those that cost most first, how near the outputs are, and which layers stay in float and why.
    """
    from forge.quantization.reports.check import QuantizationWarning

    _check(output, FORMATS, force)
    _check(report, REPORTS, force)
    with source.progress(quiet=as_json) as progress:
        module = source.load_model(model, shape, progress, function)
        module.calibrate(data, target=target, progress=progress)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QuantizationWarning)  # the report says it
            module.quantize(
                activation_dtype, kernel_dtype, None, per_channel, calib_method, quant_type, exclude=exclude or (), check=False,
                calib_guard=calib_guard, bias_correction=bias_correction, target=target, progress=progress)
        found = module.quantization_report(
            seconds=seconds, tries=report is not None, num_threads=threads, name=model.name, progress=progress)
        with _written(report, found):
            _write(module, output)
    written = [path for path in (output, report) if path is not None]
    if as_json:
        source.print_json({**found.to_json(), "written": [str(path) for path in written]})
    else:
        _print(found, written)


def _check(path: Path | None, endings: tuple[str, ...], force: bool) -> None:
    if path is None:
        return
    if path.suffix not in endings:
        raise OptionError(f"{path}: unknown format {path.suffix!r}; expected one of {', '.join(endings)}")
    source.check_output(path, force)


@contextmanager
def _written(path: Path | None, found: Report) -> Iterator[None]:
    """The report appears after what is done inside, if that succeeds."""
    if path is None:
        yield
        return
    with replacing(path) as stream:
        stream.write(found.text(path.suffix).encode())
        yield


def _write(module: IRModule, output: Path | None) -> None:
    if output is None:
        return
    if output.suffix == ".onnx":
        module.to_onnx(output)
    else:
        module.save(output)


def _print(found: Report, written: list[Path]) -> None:
    columns = ("layer", "in the model", "alone", "weight", "data", "output without", "weight bytes", "what would help")
    rows = [(row.label, *found.cells(row), row.size_text, row.advice) for row in found.worst]
    if rows:
        title = f"{found.name}: signal to noise in dB, of {source.count_text(found.samples, 'sample')}"
        tables.show(title, columns, rows, right=columns[1:7], spare=("weight bytes", "data", "weight", "alone"))
    if found.left:
        tables.show("layers that stay in float", ("layer", "reason"), found.left.items())
    if found.values:
        tables.show("values that are rounded", ("value", "range", "quantized range"), map(_value, found.values))
    if found.variants:
        _print_variants(found)
    for line in found.lines():
        source.say(line)
    for path in written:
        source.say(f"wrote {path} ({source.bytes_text(path.stat().st_size)})")


def _value(value: RoundedValue) -> tuple[str, str, str]:
    """Its name, how its range was chosen, and what its integers stand for."""
    return value.label, value.choice, f"[{value.least:.4g}, {value.most:.4g}]"


def _print_variants(found: Report) -> None:
    columns = ("variant", "outputs, dB", "arg max agrees, %", "ms", "size")
    rows: list[Any] = [
        (v.title, "-" if v.sqnr is None else f"{v.sqnr:.1f}", "-" if v.agreement is None else f"{100 * v.agreement:.1f}",
         f"{1e3 * v.seconds:.4g}", source.bytes_text(v.bytes)) for v in found.variants]
    tables.show("variants", columns, rows, right=columns[1:])
