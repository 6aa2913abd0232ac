"""``forge.ONNXModule``: an ONNX model that is calibrated and quantized, and stays ONNX.

What it exports is run by onnxruntime or TensorRT; ``ir.compile`` makes a native library of the same module.
"""

from __future__ import annotations

import json
import os
import uuid as uuids
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge import files
from forge._version import __version__
from forge.dims import Dim
from forge.errors import OpNotImplemented, OptionError, OutputExistsError, option
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.verifier import verify
from forge.module import IRModule

if TYPE_CHECKING:
    import onnx

    from forge.exporters.onnx.emitter import Document

TENSORRT_OPSET = 18
"""What TensorRT is given, if it holds the model: older versions of it read no later one."""
CACHE_SUFFIX = ".calibration.cache"
INT8 = "int8"


class ONNXModule:
    """An ONNX model and what quantization makes of it.

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
    def input_shapes(self) -> list[tuple[Dim, ...] | None]:
        """As of `IRModule`."""
        return self.ir.input_shapes

    @property
    def input_dtypes(self) -> list[str]:
        return self.ir.input_dtypes

    @property
    def output_names(self) -> list[str]:
        return self.ir.output_names

    @property
    def output_shapes(self) -> list[tuple[Dim, ...] | None]:
        """As of `IRModule`."""
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

    def __repr__(self) -> str:
        return repr(self.ir).replace("IRModule", "ONNXModule", 1)

    def calibrate(self, calib_data: Iterable[Any], reset: bool = True, use_cuda: bool = True, **options: Any) -> None:
        """Runs samples, and keeps statistics of what `quantize` may round. In place; see `IRModule.calibrate`."""
        self.ir.calibrate(calib_data, reset, use_cuda, **options)

    def quantize(
        self,
        activation_dtype: str = "uint8",
        kernel_dtype: str | None = None,
        bias_dtype: str | None = None,
        per_channel: bool = False,
        calib_method: str = "average",
        quant_type: str = "any",
        **options: Any,
    ) -> None:
        """Convolutions and matrix products become those of integers, with weights of 8 bits. In place.

        Arguments are those of `IRModule.quantize`, but that data are uint8 unless ``activation_dtype`` says otherwise. Data whose
        range is found in each call ("dynamic") are uint8 only; with int8, "any" is "static".

        Raises:
            ValueError: as `IRModule.quantize`; or ``quant_type`` is "dynamic" and ``activation_dtype`` is not uint8.
        """
        if quant_type == "dynamic" and activation_dtype == INT8:
            got = f"got {activation_dtype!r} with quant_type 'dynamic'"
            raise OptionError(f"quantize: activation_dtype: {got}; expected 'uint8': DynamicQuantizeLinear has no other")
        quant_type = "static" if quant_type == "any" and activation_dtype == INT8 else quant_type
        self.ir.quantize(activation_dtype, kernel_dtype, bias_dtype, per_channel, calib_method, quant_type, **options)

    def export(
        self,
        path: str | PathLike[str],
        uuid: str | None = None,
        is_tensorrt: bool = False,
        force_overwrite: bool = False,
        *,
        opset: int | None = None,
        tensorrt_version: str = "8.6.1",
    ) -> None:
        """Writes one ONNX file with metadata: ``uuid``, ``created``, names, shapes and types of inputs and outputs, and others.

        It appears whole or not at all. Weights of more than 2 GiB go to ``PATH.data``, as ONNX wants it.

        Args:
            path: ends in ``.onnx``.
            uuid: of the model; None: a new one.
            is_tensorrt: write what TensorRT takes, and its calibration cache (``PATH.calibration.cache``). A quantized model has
                int8 with zero points of 0, a scale for each channel of a weight, and real biases: what `quantize` made is made
                again so. One that is only calibrated stays in float: TensorRT rounds numbers itself, as the cache says. Not tried
                with TensorRT itself, but by the format and in onnxruntime.
            force_overwrite: replace files that exist.
            opset: version of the operator set; None: as of `IRModule.to_onnx`, or 18 for TensorRT, if it will do.
            tensorrt_version: that may read the cache; others refuse it.

        Raises:
            OptionError: a bad argument; or ``is_tensorrt`` of a model that is not calibrated, or was quantized in a way that
            TensorRT cannot read. OutputExistsError: a file exists, without ``force_overwrite``. OutputPathError: it cannot be
            written. OpNotImplemented: as of `IRModule.to_onnx`.
        """
        from forge.exporters.onnx import save_model

        _check_flags(is_tensorrt, force_overwrite)
        with files.writing("export", path):
            target = Path(path)
            cache = target.with_name(target.name + CACHE_SUFFIX)
            _check_paths([target, cache] if is_tensorrt else [target], force_overwrite)
            model = self._for_tensorrt() if is_tensorrt else self.ir.mod
            scales = _named_scales(model) if is_tensorrt else {}
            proto, document = _exported(model, opset, TENSORRT_OPSET if is_tensorrt else None)
            _describe(proto, self._metadata(model, uuid, is_tensorrt))
            if not is_tensorrt:
                save_model(proto, document.tensors, target)
                return
            text = _cache(proto, scales, tensorrt_version)
            with files.replacing(cache) as stream:
                stream.write(text.encode())
                save_model(proto, document.tensors, target)

    def _for_tensorrt(self) -> Module:
        """A copy of the model, its ``params`` constants: in float, with statistics; or with int8 whose zero points are 0."""
        from forge.driver.compilation import bind_params
        from forge.quantization.places.products import is_recurrent, products
        from forge.quantization.places.symmetric import check_symmetric, real_biases
        from forge.quantization.quantize import quantize, statistics_of

        module, made = self.ir.mod.copy(), self.ir._quantization
        bind_params(module.main)
        if not self.is_quantized:
            if not statistics_of(module):
                raise OptionError("export: is_tensorrt: the model is not calibrated; expected one after calibrate(...)")
            return module
        if made is not None and made.is_of(self.ir.mod):
            scheme = replace(made.scheme, activation_dtype=INT8, kernel_dtype=INT8, bias_dtype=None, per_channel=True,
                             symmetric=True, quant_type="static")
            kept = {k: "no layer of TensorRT" for k, node in enumerate(products(made.before.main)) if is_recurrent(node)}
            module = quantize(made.before, scheme, made.options, kept).module
        real_biases(module.main)
        check_symmetric(module.main)
        return module

    def _metadata(self, module: Module, uuid: str | None, is_tensorrt: bool) -> dict[str, str]:
        from forge.driver.metadata import creation_time, interface, precision
        from forge.ir.saved.hashing import fingerprint

        if uuid is not None and (not isinstance(uuid, str) or not uuid):
            raise OptionError(f"export: uuid: got {uuid!r}; expected text, or None for a new one")
        return {
            "uuid": uuid or str(uuids.uuid4()),
            "created": creation_time(),
            "forge_version": __version__,
            "fingerprint": fingerprint(module),
            "precision": INT8 if self.is_quantized else precision(module),
            "target": "tensorrt" if is_tensorrt else "onnxruntime",
            **{name: json.dumps(tensors) for name, tensors in interface(module.main).items()},
        }


def _check_flags(is_tensorrt: bool, force_overwrite: bool) -> None:
    for name, flag in (("is_tensorrt", is_tensorrt), ("force_overwrite", force_overwrite)):
        if not isinstance(flag, bool):
            raise OptionError(f"export: {name}: got {flag!r}; expected True or False")


def _check_paths(paths: list[Path], force_overwrite: bool) -> None:
    if paths[0].suffix != ".onnx":
        raise OptionError(f"export: path: got {str(paths[0])!r}; expected a path that ends in .onnx")
    for path in paths:
        if os.path.lexists(path) and not force_overwrite:
            raise OutputExistsError(f"export: {path} exists; pass {option('force_overwrite=True')} or choose another path")


def _named_scales(module: Module) -> dict[str, float]:
    """Scales by name of tensor; values without name get one."""
    from forge.quantization.places.symmetric import scales_in, scales_of

    is_quantized = any(node.op == "qnn.quantize" for node in module.main)
    scales = scales_in(module.main) if is_quantized else scales_of(module, METHOD)
    _name(module.main, scales)
    return {value.name: scale for value, scale in scales.items()}


METHOD = "entropy"
"""How ranges for the cache follow from statistics, as the calibrator that it names has it."""


def _name(graph: Graph, values: Iterable[Value]) -> None:
    taken = {v.name for v in graph.values()} | {n.name for n in graph.nodes} | set(graph.output_names)
    outputs = dict(zip(graph.outputs, graph.output_names))
    for number, value in enumerate(values):
        if not value.name:
            value.name = outputs.get(value) or next(n for n in _spellings(f"tensor_{number}") if n not in taken)
            taken.add(value.name)


def _spellings(name: str) -> Iterator[str]:
    while True:
        yield name
        name += "_"


def _exported(model: Module, opset: int | None, preferred: int | None) -> tuple[onnx.ModelProto, Document]:
    from forge.exporters.onnx import export_model
    from forge.passes import inline_calls

    module = model.copy()
    inline_calls.run(module.main, module)
    verify(module)
    if opset is None and preferred is not None:
        try:
            return export_model(module, preferred)
        except OpNotImplemented:
            pass
    return export_model(module, opset)


def _describe(proto: onnx.ModelProto, entries: Mapping[str, str]) -> None:
    for name, text in entries.items():
        proto.metadata_props.add(key=name, value=text)


def _cache(proto: onnx.ModelProto, scales: Mapping[str, float], version: str) -> str:
    """For the tensors that the model has."""
    from forge.exporters.onnx.calibration_cache import cache_text

    present = {v.name for v in proto.graph.input} | {name for node in proto.graph.node for name in node.output}
    return cache_text({name: scale for name, scale in scales.items() if name in present}, version)


__all__ = ["ONNXModule"]
