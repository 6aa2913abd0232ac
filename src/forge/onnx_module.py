"""``forge.ONNXModule``: an ONNX model that is calibrated and quantised, and stays ONNX.

What it exports is run by onnxruntime or TensorRT; ``ir.compile`` makes a native library of the same module.
"""

from __future__ import annotations

import re
import struct
import uuid as uuids
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge import files
from forge._version import __version__
from forge.driver.metadata import creation_time
from forge.errors import OptionError, OutputExistsError
from forge.ir.nodes import Module
from forge.ir.saved.statistics import Statistics
from forge.module import IRModule
from forge.quantization.quantize import quantise, statistics_of
from forge.quantization.ranges import LEAST_SCALE

if TYPE_CHECKING:
    import onnx

CACHE_HEADER = "TRT-8601-EntropyCalibration2"
"""The first line of TensorRT's calibration caches: the version that wrote it, and the calibrator."""
CACHE_SUFFIX = ".calibration.cache"
GIVEN_NAME = re.compile(r"[A-Za-z]+_[0-9]+")
"""What exporters call nodes without a name; a value of that name would get another one."""
CODES = 127
"""TensorRT's int8 is symmetric."""


class ONNXModule:
    """An ONNX model and what quantisation makes of it.

    Args:
        model: a path, the bytes of a file, or a ``ModelProto``.

    Attributes:
        ir: the module. All that can be done with it, can be done here.

    Raises:
        OptionError, ImportModelError, OpNotImplemented: as of `IRModule.from_onnx`.
    """

    def __init__(self, model: str | PathLike[str] | bytes | onnx.ModelProto) -> None:
        self.ir = IRModule.from_onnx(model)

    @property
    def input_names(self) -> list[str]:
        return self.ir.input_names

    @property
    def input_shapes(self) -> list[Any]:
        return self.ir.input_shapes

    @property
    def input_dtypes(self) -> list[str]:
        return self.ir.input_dtypes

    @property
    def output_names(self) -> list[str]:
        return self.ir.output_names

    @property
    def output_shapes(self) -> list[Any]:
        return self.ir.output_shapes

    @property
    def output_dtypes(self) -> list[str]:
        return self.ir.output_dtypes

    @property
    def is_calibrated(self) -> bool:
        return self.ir.is_calibrated

    @property
    def is_quantized(self) -> bool:
        return self.ir.is_quantized

    def calibrate(self, calib_data: Iterable[Any], reset: bool = True, use_cuda: bool = True) -> None:
        """As `IRModule.calibrate`."""
        self.ir.calibrate(calib_data, reset, use_cuda)

    def quantize(
        self, activation_dtype: str = "uint8", kernel_dtype: str | None = None, bias_dtype: str | None = None,
        per_channel: bool = False, calib_method: str = "average", quant_type: str = "any", **options: Any,
    ) -> None:
        """As `IRModule.quantize`.

        Raises:
            OptionError: as there; or ranges of each call are asked for ("dynamic") with codes of int8, which ONNX has no
            operator for.
        """
        if quant_type == "dynamic" and activation_dtype != "uint8":
            got = f"{activation_dtype!r} with quant_type 'dynamic'"
            raise OptionError(f"quantize: activation_dtype: got {got}; expected 'uint8': DynamicQuantizeLinear has no other")
        self.ir.quantize(activation_dtype, kernel_dtype, bias_dtype, per_channel, calib_method, quant_type, **options)

    def export(
        self, path: str | PathLike[str], uuid: str | None = None, is_tensorrt: bool = False, force_overwrite: bool = False
    ) -> None:
        """Writes one ONNX file, with metadata: ``uuid``, time, version of Forge, precision.

        For TensorRT, a quantised model is written with zero points of 0 and a scale for each channel of a weight. Next to the
        file is a calibration cache (``PATH.calibration.cache``), from which TensorRT can quantise a model in float itself.

        Args:
            path: ends in ``.onnx``; the file appears whole or not at all.
            uuid: of the model; None: a new one.
            is_tensorrt: for TensorRT. Not tried with TensorRT itself, but by the format and in onnxruntime.
            force_overwrite: replace a file that is there.

        Raises:
            OptionError: a bad argument; or ``is_tensorrt`` for a model that was not calibrated.
            OutputExistsError: there is a file; OutputPathError: it cannot be written; OpNotImplemented: as of `to_onnx`.
        """
        target = self._target(path, is_tensorrt, force_overwrite)
        module, known = self._for_tensorrt() if is_tensorrt else (self.ir, {})
        proto = module.to_onnx()
        assert proto is not None
        for name, text in self._metadata(uuid, is_tensorrt).items():
            proto.metadata_props.add(key=name, value=text)
        tensors = {name for node in proto.graph.node for name in (*node.input, *node.output)}
        with files.writing("export", target):
            if is_tensorrt:
                lines = [CACHE_HEADER, *(f"{name}: {scale_text(s)}" for name, s in known.items() if name in tensors)]
                with files.replacing(target.with_name(target.name + CACHE_SUFFIX)) as stream:
                    stream.write(("\n".join(lines) + "\n").encode())
            with files.replacing(target) as stream:
                stream.write(proto.SerializeToString(deterministic=True))

    def _target(self, path: str | PathLike[str], is_tensorrt: bool, force_overwrite: bool) -> Path:
        for name, flag in (("is_tensorrt", is_tensorrt), ("force_overwrite", force_overwrite)):
            if not isinstance(flag, bool):
                raise OptionError(f"export: {name}: got {flag!r}; expected True or False")
        if not isinstance(path, str | PathLike) or Path(path).suffix != ".onnx":
            raise OptionError(f"export: path: got {path!r}; expected a path that ends in .onnx")
        if Path(path).exists() and not force_overwrite:
            raise OutputExistsError(f"export: {path}: exists; pass force_overwrite=True to replace it")
        return Path(path)

    def _for_tensorrt(self) -> tuple[IRModule, dict[str, Statistics]]:
        """The module as TensorRT takes it, whose rounded values have names, and statistics by these."""
        made = self.ir._quantisation
        before = made.before.copy() if made is not None else self.ir.copy().mod
        known = _named(before)
        if not known:
            raise OptionError("export: is_tensorrt: got a model that is not calibrated; expected one after calibrate(...)")
        if made is not None:
            scheme = replace(made.scheme, activation_dtype="int8", kernel_dtype="int8", symmetric=True, per_channel=True)
            before = quantise(before, scheme).module
        return IRModule(before, fold_constants=False, fold_batch_norms=False), known

    def _metadata(self, uuid: str | None, is_tensorrt: bool) -> dict[str, str]:
        if uuid is not None and (not isinstance(uuid, str) or not uuid):
            raise OptionError(f"export: uuid: got {uuid!r}; expected text, or None for a new one")
        precision = "int8" if self.is_quantized else "float32"
        target = "tensorrt" if is_tensorrt else "onnxruntime"
        return {"uuid": uuid or str(uuids.uuid4()), "created": creation_time(), "forge_version": __version__,
                "precision": precision, "target": target}


def _named(module: Module) -> dict[str, Statistics]:
    """Gives the values of ``main`` that were calibrated names, in place; returns their statistics."""
    found: dict[str, Statistics] = {}
    taken = {v.name for v in module.main.values()} | {node.name for node in module.main.nodes}
    for number, (value, statistics) in enumerate(statistics_of(module).items()):
        if value.producer is not None and (value.name in ("", value.producer.name) or GIVEN_NAME.fullmatch(value.name)):
            base = f"{value.name or 'value'}_tensor_{number}"
            value.name = next(name for k in range(len(taken) + 1) if (name := base + "_" * k) not in taken)
            taken.add(value.name)
        if statistics.is_finite:
            found[value.name] = statistics
    return found


def scale_text(statistics: Statistics) -> str:
    """The scale of a value as caches have it: float32, most significant byte first, in hexadecimal digits."""
    largest = max(-statistics.low, statistics.high, CODES * LEAST_SCALE)
    return struct.pack(">f", largest / CODES).hex()
