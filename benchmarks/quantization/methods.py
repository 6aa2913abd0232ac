"""What quantizes: onnxruntime, NNCF, torchao and Forge, each a row of a table.

All get the same file, the same calibration inputs, one at a time, and their own defaults for what a row does not say. Files are
run by onnxruntime, Forge's by Forge, torchao's by torch.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

import forge
from benchmarks.quantization.data import Array, Samples
from benchmarks.quantization.tasks import CALIBRATION, INPUT, Case, Task

Predict = Callable[[Array], Array]
Kind = Literal["int8", "int8, accuracy control", "int4 weights", "int8 weights"]

BATCH = 100
"""Samples that are computed at once."""
GROUP = 32
"""Weights of 4 bits that share a scale."""
MAX_DROP = 0.1
"""Points of the validation samples that accuracy control may lose."""


class Unavailable(Exception):
    """A method cannot be had here; says why."""


@dataclass(frozen=True)
class Quantized:
    """Outputs of inputs, and the bytes of the file."""

    predict: Predict
    size: int

    def points(self, case: Case, samples: Samples) -> float:
        return case.task.metric.points(predicted(self.predict, samples.inputs), samples.labels)


@dataclass(frozen=True)
class Method:
    """``make(case, folder)`` quantizes the file of a case; ``package`` must be installed for it."""

    name: str
    kind: Kind
    package: str
    make: Callable[[Case, Path], Quantized]

    def applies(self, task: Task) -> bool:
        """Only of transformers, weights are quantized alone."""
        return task.transformer or not self.kind.endswith("weights")


def predicted(predict: Predict, inputs: Array) -> Array:
    """The outputs of all inputs."""
    return np.concatenate([predict(inputs[k : k + BATCH]) for k in range(0, len(inputs), BATCH)])


def from_file(model: Path | bytes) -> Predict:
    """Computes an ONNX model by onnxruntime with its own optimizations, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def predict(inputs: Array) -> Array:
        outputs: Array = session.run(None, {INPUT: inputs})[0]
        return outputs

    return predict


def in_float(case: Case) -> Quantized:
    """The file as it is."""
    return _of_file(case.path)


def _of_file(path: Path) -> Quantized:
    return Quantized(from_file(path), path.stat().st_size)


def _feeds(case: Case) -> list[dict[str, Array]]:
    return [{INPUT: case.calibration[k : k + 1]} for k in range(len(case.calibration))]


def _reader(case: Case) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """The calibration inputs."""

        def __init__(self) -> None:
            self.rewind()

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self.feeds, None)

        def rewind(self) -> None:
            self.feeds: Iterator[Mapping[str, Array]] = iter(_feeds(case))

        def __len__(self) -> int:
            return len(case.calibration)

    return Reader()


def _onnxruntime_static(case: Case, folder: Path, *, calibration: str, per_channel: bool) -> Quantized:
    """Activations of uint8, weights of int8, in QDQ form, after onnxruntime's own preparation."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, made = folder / "prepared.onnx", folder / "made.onnx"
    quant_pre_process(str(case.path), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared), str(made), _reader(case), quant_format=quantization.QuantFormat.QDQ, per_channel=per_channel,
        activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        calibrate_method=quantization.CalibrationMethod[calibration])
    return _of_file(made)


def _nncf(case: Case, folder: Path) -> Quantized:
    import nncf
    import onnx

    kind = nncf.ModelType.TRANSFORMER if case.task.transformer else None
    made = nncf.quantize(onnx.load(case.path), nncf.Dataset(_feeds(case)), subset_size=CALIBRATION, model_type=kind)
    return _saved(made, folder)


def _nncf_with_control(case: Case, folder: Path) -> Quantized:
    """May lose `MAX_DROP` points of the validation samples."""
    import nncf
    import onnx

    kind = nncf.ModelType.TRANSFORMER if case.task.transformer else None
    batches = [case.validation[k : k + BATCH] for k in range(0, len(case.validation), BATCH)]

    def validate(model: Any, chosen: Iterable[Samples]) -> tuple[float, list[float]]:
        predict, parts = from_file(model.SerializeToString()), list(chosen)
        outputs = [predict(part.inputs) for part in parts]
        points = case.task.metric.points
        each = [points(output, part.labels) for output, part in zip(outputs, parts)]
        return points(np.concatenate(outputs), np.concatenate([part.labels for part in parts])), each

    made = nncf.quantize_with_accuracy_control(
        onnx.load(case.path), nncf.Dataset(_feeds(case)), nncf.Dataset(batches), validate, max_drop=MAX_DROP,
        drop_type=nncf.DropType.ABSOLUTE, subset_size=CALIBRATION, model_type=kind)
    return _saved(made, folder)


def _saved(model: Any, folder: Path) -> Quantized:
    import onnx

    onnx.save(model, folder / "made.onnx")
    return _of_file(folder / "made.onnx")


def _onnxruntime_weights(case: Case, folder: Path, *, scheme: str, bits: int = 4, symmetric: bool = False) -> Quantized:
    """MatMulNBits with blocks of `GROUP` weights.

    Of "gptq" onnxruntime 1.32 makes the integers of "default": it carries errors on by the zeros of a triangular matrix.
    """
    from onnxruntime.quantization import matmul_nbits_quantizer as quantizer

    config = {
        "default": lambda: quantizer.DefaultWeightOnlyQuantConfig(block_size=GROUP, is_symmetric=symmetric, bits=bits),
        "hqq": lambda: quantizer.HQQWeightOnlyQuantConfig(block_size=GROUP, bits=bits),
        "gptq": lambda: quantizer.GPTQWeightOnlyQuantConfig(_reader(case), block_size=GROUP),
        "k-quant": lambda: quantizer.KQuantWeightOnlyQuantConfig(),
    }[scheme]()
    made = quantizer.MatMulNBitsQuantizer(str(case.path), bits, GROUP, symmetric, algo_config=config)
    made.process()
    made.model.save_model_to_file(str(folder / "made.onnx"))
    return _of_file(folder / "made.onnx")


def _torchao(case: Case, folder: Path, *, bits: int) -> Quantized:
    """Weights of linear layers; 4 bits in groups of `GROUP`, 8 bits for each channel. The size is that of all numbers."""
    import torch
    from torchao import quantization

    config = {
        4: lambda: quantization.IntxWeightOnlyConfig(torch.int4, quantization.PerGroup(GROUP)),
        8: lambda: quantization.Int8WeightOnlyConfig(),
    }[bits]()
    network = case.network()
    linear = {k: m for k, m in network.named_modules() if isinstance(m, torch.nn.Linear)}
    bytes_before = sum(p.numel() * 4 for p in network.parameters())
    quantization.quantize_(network, config)
    scales = sum(m.weight.numel() // GROUP if bits == 4 else len(m.weight) for m in linear.values())
    weights = sum(m.weight.numel() for m in linear.values())

    def predict(inputs: Array) -> Array:
        with torch.no_grad():
            outputs: Array = network(torch.from_numpy(inputs)).numpy()
        return outputs

    return Quantized(predict, bytes_before - 4 * weights + weights * bits // 8 + 4 * scales)


def _forge(case: Case, folder: Path, **options: Any) -> Quantized:
    """Calibrated and quantized with defaults, but for the options."""
    module: Any = forge.from_onnx(case.path)
    _needs(module, "calibrate", "quantize")
    module.calibrate(_feeds(case))
    module.quantize(**options)
    return _of_module(module, folder)


def _forge_with_control(case: Case, folder: Path) -> Quantized:
    """May lose `MAX_DROP` points of the validation samples."""
    module: Any = forge.from_onnx(case.path)
    _needs(module, "calibrate", "quantize_with_accuracy")
    module.calibrate(_feeds(case))

    def validate(run: Predict) -> float:
        return case.task.metric.points(predicted(run, case.validation.inputs), case.validation.labels)

    module.quantize_with_accuracy(validate, max_drop=MAX_DROP)
    return _of_module(module, folder)


def _forge_weights(case: Case, folder: Path, *, calibrated: bool = False, **options: Any) -> Quantized:
    module: Any = forge.from_onnx(case.path)
    _needs(module, "compress")
    module.compress(calib_data=_feeds(case) if calibrated else None, **options)
    return _of_module(module, folder)


def _needs(module: Any, *names: str) -> None:
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        raise Unavailable(f"this version of Forge has no IRModule.{missing[0]}")


def _of_module(module: Any, folder: Path) -> Quantized:
    """Compiled; the size is that of the ONNX file: one of Forge's own has samples and statistics too."""
    module.to_onnx(folder / "made.onnx")
    return Quantized(module.get_inference_function(), (folder / "made.onnx").stat().st_size)


def _onnxruntime_methods() -> list[Method]:
    calibrations = ("MinMax", "Entropy", "Percentile")
    return [
        Method(f"onnxruntime-{calibration.lower()}{'-channel' if per_channel else ''}", "int8", "onnxruntime",
               partial(_onnxruntime_static, calibration=calibration, per_channel=per_channel))
        for per_channel in (False, True) for calibration in calibrations
    ]


def _weight_methods() -> list[Method]:
    four: Kind = "int4 weights"
    eight: Kind = "int8 weights"
    blocks: dict[str, dict[str, Any]] = {
        "int4": {"scheme": "default"}, "int4-symmetric": {"scheme": "default", "symmetric": True}, "hqq": {"scheme": "hqq"},
        "gptq": {"scheme": "gptq"}, "kquant": {"scheme": "k-quant"},
    }
    return [
        *(Method(f"onnxruntime-{name}", four, "onnxruntime", partial(_onnxruntime_weights, **options))
          for name, options in blocks.items()),
        Method("torchao-int4", four, "torchao", partial(_torchao, bits=4)),
        Method("forge-int4", four, "forge", partial(_forge_weights, bits=4, group=GROUP)),
        Method("forge-int4-calibrated", four, "forge", partial(_forge_weights, bits=4, group=GROUP, calibrated=True)),
        Method("onnxruntime-int8", eight, "onnxruntime", partial(_onnxruntime_weights, scheme="default", bits=8)),
        Method("torchao-int8", eight, "torchao", partial(_torchao, bits=8)),
        Method("forge-int8", eight, "forge", partial(_forge_weights, bits=8)),
    ]


METHODS = MappingProxyType({method.name: method for method in [
    *_onnxruntime_methods(),
    Method("nncf", "int8", "nncf", _nncf),
    Method("forge", "int8", "forge", _forge),
    Method("forge-channel", "int8", "forge", partial(_forge, per_channel=True)),
    Method("nncf-control", "int8, accuracy control", "nncf", _nncf_with_control),
    Method("forge-control", "int8, accuracy control", "forge", _forge_with_control),
    *_weight_methods(),
]})


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Peers print progress and warn about what the table shows."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
