"""Cases that the onnx package keeps in files: small models, those that torch exported, and light forms of real networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

SUFFIX = "_stored"
KINDS = ("simple", "pytorch-converted", "pytorch-operator", "real")

DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class StoredCase:
    """One case, read when it is asked for."""

    name: str
    path: Path
    light: bool
    rtol: float
    atol: float

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.path)

    @property
    def data_sets(self) -> list[DataSet]:
        """Inputs and expected outputs."""
        if self.light:
            return [self._made()]
        return [self._read(folder) for folder in sorted(self.path.parent.glob("test_data_set*"))]

    def _read(self, folder: Path) -> DataSet:
        return _protos(folder, "input", self.model.graph.input), _protos(folder, "output", self.model.graph.output)

    def _made(self) -> DataSet:
        """Light networks come with the outputs for one input: numbers that rise evenly from 0 to 1."""
        weights = {tensor.name for tensor in self.model.graph.initializer}
        inputs = [_ramp(info) for info in self.model.graph.input if info.name not in weights]
        expected = [self.path.with_name(f"{self.path.stem}_output_{i}.pb") for i in range(len(self.model.graph.output))]
        return inputs, [_load(path, info) for path, info in zip(expected, self.model.graph.output)]


def stored_cases() -> Iterator[StoredCase]:
    """All of them."""
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            light = case.model_dir is None
            path = Path(DATA_DIR) / "light" / Path(case.url).name if light else Path(case.model_dir) / "model.onnx"
            yield StoredCase(case.name, path, light, case.rtol, case.atol)


def stored_nodes(folder: Path, made: Mapping[str, Any]) -> Iterator[StoredCase]:
    """The cases of single nodes in ``folder``, named ``.._stored``, but for those whose model is also made in memory.

    Releases of the onnx package up to 1.21 have such files, in ``onnx/backend/test/data/node`` of their sources. Many are older
    than the release: their operators have the versions of the opset that was current then.
    """
    known = {_identity(case.model) for case in made.values()}
    for path in sorted(folder.glob("test_*/model.onnx")):
        like = made.get(path.parent.name)
        tolerances = (like.rtol, like.atol) if like else (1e-3, 1e-7)
        case = StoredCase(f"{path.parent.name}{SUFFIX}", path, False, *tolerances)
        if _identity(case.model) not in known:
            yield case


def _identity(model: onnx.ModelProto) -> bytes:
    """The model without what says who made it."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for field in ("producer_name", "producer_version", "doc_string", "ir_version"):
        copy.ClearField(field)
    return bytes(copy.SerializeToString(deterministic=True))


def _ramp(info: onnx.ValueInfoProto) -> np.ndarray:
    shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim)
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def _protos(folder: Path, stem: str, declared: Any) -> list[Any]:
    count = len(list(folder.glob(f"{stem}_*.pb")))
    return [_load(folder / f"{stem}_{i}.pb", info) for i, info in zip(range(count), declared)]


_READERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}


def _load(path: Path, info: onnx.ValueInfoProto) -> Any:
    make, read = _READERS[info.type.WhichOneof("value")]
    message = make()
    message.ParseFromString(path.read_bytes())
    return read(message)
