"""Quantised models with Forge, onnxruntime and openvino, and the float models that they are made of, in turns.

    python -m benchmarks.quantized [MODEL ...] [--threads 1] [--seconds 4] [--signed] [--target TARGET]

Models of ``benchmarks/models.py`` are quantised by onnxruntime: QDQ with weights of int8 for each channel and activations of
uint8 (``--signed``: int8), calibrated on a few inputs, after its own preparation. *Peer / Forge* is the time of the fastest peer
over Forge's, on the same file, by minima; *float / int8* is Forge's time for the float32 model over that for the quantised one.
*Errors* are the largest differences of all three to onnxruntime without optimisations, relative to the largest output.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import forge
from benchmarks import models
from benchmarks.turns import take_turns
from forge import peers

USUAL = ("resnet18", "resnet50", "mobilenetv2", "mobilenetv3", "efficientnet", "yolo", "unet", "bert", "minilm", "vit", "speech",
         "lstm")
CALIBRATION = 4


def quantised(name: str, folder: Path, *, signed: bool, small: bool = False) -> tuple[Path, Path]:
    """The float model that onnxruntime has prepared, and the quantised one, in a folder."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, made = folder / "prepared.onnx", folder / "quantised.onnx"
    quant_pre_process(str(models.build(name, small=small)), str(prepared), skip_symbolic_shape=True)

    class Inputs(quantization.CalibrationDataReader):  # type: ignore[misc]
        """A few random inputs."""

        def __init__(self) -> None:
            self.feeds: Iterator[Mapping[str, Any]] = iter(models.inputs(name, seed=k, small=small) for k in range(CALIBRATION))

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self.feeds, None)

    activations = quantization.QuantType.QInt8 if signed else quantization.QuantType.QUInt8
    quantization.quantize_static(
        str(prepared), str(made), Inputs(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
        activation_type=activations, weight_type=quantization.QuantType.QInt8)
    return prepared, made


def forge_call(path: Path, feed: Mapping[str, Any], threads: int, target: str, folder: Path) -> Callable[[], Any]:
    forge.from_onnx(path).compile(output_path=folder, target=target, force_overwrite=True)
    runtime = forge.Runtime(folder)
    runtime.set_num_threads(threads)
    arrays = [feed[name] for name in runtime.input_names]
    return lambda: peers.as_list(runtime(*arrays))


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Times in seconds by variant, and how Forge's results compare with onnxruntime's."""
    feed = models.inputs(name, small=options.small)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepared, made = quantised(name, folder, signed=options.signed, small=options.small)
        runs = {
            "forge": forge_call(made, feed, options.threads, options.target, folder / "int8"),
            "float32": forge_call(prepared, feed, options.threads, options.target, folder / "float32"),
            "onnxruntime": peers.load_onnxruntime(made, feed, options.threads),
            "openvino": peers.load_openvino(made, feed, options.threads),
        }
        exact = peers.load_reference(made, feed, 1)()
        errors = [peers.disagreement(runs[name](), exact) for name in ("forge", "onnxruntime", "openvino")]
        size = sum(p.stat().st_size for p in (folder / "int8").iterdir())
        times = take_turns(runs, options.seconds)
    return {"times": {k: min(t) for k, t in times.items()}, "errors": errors, "bytes": size}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=USUAL, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--signed", action="store_true", help="activations of int8")
    parser.add_argument("--small", action="store_true", help="the small variants, as tests take them")
    parser.add_argument("--target", default="llvm")
    options = parser.parse_args(arguments)
    os.environ["FORGE_CACHE"] = "0"
    columns = ("model", "Forge, ms", "onnxruntime", "openvino", "peer / Forge", "float32", "float / int8", "errors", "MB")
    table, ratios = Table(*columns), []
    console = Console(width=140)
    for name in options.models:
        found = measured(name, options)
        times = {k: 1e3 * t for k, t in found["times"].items()}
        peer = min(times["onnxruntime"], times["openvino"]) / times["forge"]
        ratios.append(peer)
        cells = [name, *(f"{times[k]:.3f}" for k in ("forge", "onnxruntime", "openvino")), f"{peer:.2f}",
                 f"{times['float32']:.3f}", f"{times['float32'] / times['forge']:.2f}",
                 " ".join(f"{e:.4f}" for e in found["errors"]), f"{found['bytes'] / 1e6:.1f}"]
        table.add_row(*cells)
        print("\t".join(cells), flush=True)
    console.print(table)
    print(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
