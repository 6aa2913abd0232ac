"""Quantized models with Forge, onnxruntime and openvino, and the float models that they are made of, in turns.

    python -m benchmarks.quantized [MODEL ...] [--threads 1] [--seconds 4] [--activations uint16 | --by nncf]
        [--target TARGET] [--page]
    python -m benchmarks.quantized --by onnxruntime nncf
    python -m benchmarks.quantized resnet50 --inputs 500

Models of ``benchmarks/models.py`` are quantized by onnxruntime: QDQ with weights of int8 for each channel and activations of
uint8 (or as ``--activations`` says), calibrated on a few inputs, after its own preparation; or by NNCF with its defaults; or by
both, and each engine is given the file that it runs fastest.
*Peer / Forge* is the time of the fastest peer over Forge's, by minima; *float / int8* is Forge's time for the float32 model over
that for the quantized one.
*Errors* are the largest differences of all three to onnxruntime without optimizations, relative to the largest output.
``--page`` also adds the table of this CPU to ``docs/reference/performance.md``.
With ``--inputs`` classes are compared with onnxruntime's, of inputs whose two largest outputs differ there by more than a step.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import forge
from benchmarks import machine_tables, models
from benchmarks.turns import take_turns
from forge import peers
from forge.driver.machines import Table as Kept

USUAL = ("resnet18", "resnet50", "mobilenetv2", "mobilenetv3", "efficientnet", "yolo", "unet", "bert", "minilm", "vit", "speech",
         "lstm")
TRANSFORMERS = ("bert", "minilm", "vit", "speech")
"""NNCF treats them by a scheme of their own."""
ACTIVATIONS = {"uint8": "QUInt8", "int8": "QInt8", "uint16": "QUInt16", "int16": "QInt16"}
CALIBRATION = 4


def quantized(
    name: str, folder: Path, *, activations: str = "uint8", by: str = "onnxruntime", small: bool = False
) -> tuple[Path, Path]:
    """The float model that onnxruntime has prepared, and the quantized one, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, made = folder / "prepared.onnx", folder / "quantized.onnx"
    quant_pre_process(str(models.build(name, small=small)), str(prepared), skip_symbolic_shape=True)
    if by == "nncf":
        _by_nncf(name, made, small)
    else:
        _by_onnxruntime(name, prepared, made, activations, small)
    return prepared, made


def _by_nncf(name: str, made: Path, small: bool) -> None:
    import nncf
    import onnx

    kind = nncf.ModelType.TRANSFORMER if name in TRANSFORMERS else None
    data = nncf.Dataset([dict(models.inputs(name, seed=k, small=small)) for k in range(CALIBRATION)])
    model = onnx.load(models.build(name, small=small))
    onnx.save(nncf.quantize(model, data, subset_size=CALIBRATION, model_type=kind), made)


def _by_onnxruntime(name: str, prepared: Path, made: Path, activations: str, small: bool) -> None:
    from onnxruntime import quantization

    kind = quantization.QuantType.from_string(ACTIVATIONS[activations])

    class Inputs(quantization.CalibrationDataReader):  # type: ignore[misc]
        """A few random inputs."""

        def __init__(self) -> None:
            self.feeds: Iterator[Mapping[str, Any]] = iter(models.inputs(name, seed=k, small=small) for k in range(CALIBRATION))

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self.feeds, None)

    quantization.quantize_static(
        str(prepared), str(made), Inputs(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
        activation_type=kind, weight_type=quantization.QuantType.QInt8,
        extra_options={"UseQDQContribOps": "16" in activations})


def forge_call(path: Path, feed: Mapping[str, Any], threads: int, target: str, folder: Path) -> Callable[[], Any]:
    forge.from_onnx(path).compile(output_path=folder, target=target, force_overwrite=True)
    runtime = forge.Runtime(folder)
    runtime.set_num_threads(threads)
    arrays = [feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def agreement(name: str, options: argparse.Namespace) -> tuple[int, int]:
    """How many of the inputs that onnxruntime decides have the class that it gives them, and how many these are."""
    import onnx
    from onnx import numpy_helper

    with tempfile.TemporaryDirectory() as temporary:
        _, made = quantized(name, Path(temporary), activations=options.activations, by=options.by[0], small=options.small)
        model = onnx.load(made)
        last = next(node for node in model.graph.node if model.graph.output[0].name in node.output)
        step = next(float(numpy_helper.to_array(t)) for t in model.graph.initializer if t.name == last.input[1])
        same = decided = 0
        feed = models.inputs(name, small=options.small)
        forge_run = forge_call(made, feed, options.threads, options.target, Path(temporary) / "int8")
        other_run = peers.load_onnxruntime(made, feed, options.threads)
        for seed in range(options.inputs):
            for key, array in models.inputs(name, seed=seed, small=options.small).items():
                feed[key][...] = array
            got, wanted = (np.asarray(run()[0]).reshape(-1) for run in (forge_run, other_run))
            second, first = np.sort(wanted)[-2:]
            if first - second > 1.5 * step:
                decided += 1
                same += int(got.argmax() == wanted.argmax())
    return same, decided


ENGINES = ("forge", "onnxruntime", "openvino")


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Least times in seconds and the forms that take them by engine, and how results of all compare with onnxruntime's."""
    feed = models.inputs(name, small=options.small)
    runs: dict[tuple[str, str], Callable[[], Any]] = {}
    errors, sizes = dict[tuple[str, str], float](), dict[str, int]()
    with tempfile.TemporaryDirectory() as temporary:
        for by in options.by:
            folder = Path(temporary) / by
            prepared, made = quantized(name, folder, activations=options.activations, by=by, small=options.small)
            runs |= {
                ("forge", by): forge_call(made, feed, options.threads, options.target, folder / "int8"),
                ("onnxruntime", by): peers.load_onnxruntime(made, feed, options.threads),
                ("openvino", by): peers.load_openvino(made, feed, options.threads),
            }
            exact = peers.load_reference(made, feed, 1)()
            errors |= {(engine, by): peers.disagreement(runs[engine, by](), exact) for engine in ENGINES}
            sizes[by] = sum(p.stat().st_size for p in (folder / "int8").iterdir())
        runs["float32", ""] = forge_call(prepared, feed, options.threads, options.target, folder / "float32")
        least = {run: min(times) for run, times in take_turns(runs, options.seconds * len(options.by)).items()}
    forms = {engine: min(options.by, key=lambda by: least[engine, by]) for engine in ENGINES}
    return {
        "times": {engine: least[engine, by] for engine, by in forms.items()} | {"float32": least["float32", ""]},
        "forms": forms,
        "errors": [errors[engine, by] for engine, by in forms.items()],
        "bytes": sizes[forms["forge"]],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=USUAL, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--activations", choices=tuple(ACTIVATIONS), default="uint8")
    parser.add_argument("--by", nargs="+", choices=("onnxruntime", "nncf"), default=["onnxruntime"], help="what quantizes")
    parser.add_argument("--inputs", type=int, default=0, help="compare classes of this many inputs, and measure nothing")
    parser.add_argument("--small", action="store_true", help="the small variants, as tests take them")
    parser.add_argument("--target", default="llvm")
    machine_tables.add_arguments(parser)
    options = parser.parse_args(arguments)
    os.environ["FORGE_CACHE"] = "0"
    if options.inputs:
        for name in options.models:
            print(f"{name}: %d of %d" % agreement(name, options), flush=True)
        return 0
    columns = ("model", "Forge, ms", "onnxruntime", "openvino", "peer / Forge", "float32", "float / int8", "errors", "MB")
    table, ratios, rows = Table(*columns), list[float](), list[list[str]]()
    console = Console(width=140)
    for name in options.models:
        found = measured(name, options)
        times = {k: 1e3 * t for k, t in found["times"].items()}
        peer = min(times["onnxruntime"], times["openvino"]) / times["forge"]
        ratios.append(peer)
        form = {engine: f" {by}" if len(options.by) > 1 else "" for engine, by in found["forms"].items()}
        cells = [name, *(f"{times[k]:.3f}{form[k]}" for k in ENGINES), f"{peer:.2f}",
                 f"{times['float32']:.3f}", f"{times['float32'] / times['forge']:.2f}",
                 " ".join(f"{e:.4f}" for e in found["errors"]), f"{found['bytes'] / 1e6:.1f}"]
        table.add_row(*cells)
        rows.append(cells)
        print("\t".join(cells), flush=True)
    console.print(table)
    mean = f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}"
    print(f"geometric mean of {len(ratios)}: {mean}, least {min(ratios):.2f}")
    if options.page:
        given = options.models if options.models != USUAL else []
        line = machine_tables.command(" ".join(["quantized", *given]), options, parser.parse_args(given), " ")
        rows.append(["geometric mean", *[""] * 3, mean, *[""] * 4])
        versions = machine_tables.versions(["onnxruntime", "openvino", *(["nncf"] if "nncf" in options.by else [])])
        machine_tables.publish(Kept(line, columns, rows, versions, [f"{options.threads} thread(s)"]), options.note)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
