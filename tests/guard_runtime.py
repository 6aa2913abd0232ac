"""Guard mode for programs with nodes that the host runs: ``forge_run`` on a host that gives out guarded memory.

So every buffer of every region, every arena and every result ends at an inaccessible page; so do inputs, weights, and elements of
sequences that are inputs. All memory that the host gave must come back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from forge import dtypes
from forge.backends.compiled import CompiledModel
from forge.codegen.jit import JitLibrary
from forge.codegen.tables import MODEL_SYMBOL
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType
from forge_runtime import _native, sequences
from tests.guard import Guarded, GuardedHost, Tensor


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("message", ctypes.c_char * 1020)]


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_native.__file__)
    library.forge_prepare_weights.restype = ctypes.c_void_p
    return library


def run(compiled: CompiledModel, graph: Graph, inputs: Sequence[Any], threads: int = 2) -> list[Any]:
    """Outputs of ``compiled``, which was made from ``graph``, with all buffers guarded; loops run in ``threads`` chunks.

    Raises:
        RuntimeError: the call failed.
    """
    code = JitLibrary(compiled.objects, [MODEL_SYMBOL])
    native, error, host = _library(), _Error(), GuardedHost(threads)
    weights = Guarded(compiled.weights.size, 64).write(compiled.weights.tobytes())
    given = [_Input(value, v.type) for value, v in zip(inputs, graph.inputs, strict=True)]
    table = (Tensor * max(1, len(given)))(*[x.tensor for x in given])
    outputs = (Tensor * max(1, len(graph.outputs)))()
    with _prepared(native, code.addresses[MODEL_SYMBOL], weights, error) as model:
        status = native.forge_run(model, table, outputs, ctypes.byref(host.struct), ctypes.byref(error))
    if status:
        assert not host.blocks, "a failed call keeps memory"
        raise RuntimeError(error.message.decode())
    results = [_value(t, v.type) for t, v in zip(outputs, graph.outputs, strict=False)]
    for tensor in outputs[: len(graph.outputs)]:
        native.forge_free_output(ctypes.byref(host.struct), ctypes.byref(tensor))
    assert not host.blocks, f"{len(host.blocks)} blocks of memory were not given back"
    for block in [weights, *(b for x in given for b in x.blocks)]:
        block.check("input or weights")
    return results


@contextmanager
def _prepared(native: ctypes.CDLL, address: int, weights: Guarded, error: _Error) -> Iterator[ctypes.c_void_p]:
    """The model with weights in guarded memory."""
    place = ctypes.c_void_p(weights.address)
    model = native.forge_prepare_weights(ctypes.c_void_p(address), place, ctypes.c_int64(weights.size), 0, ctypes.byref(error))
    assert model, error.message
    try:
        yield ctypes.c_void_p(model)
    finally:
        native.forge_release(ctypes.c_void_p(model))


class _Input:
    """A tensor descriptor of a value, whose data, or that of its elements, is guarded."""

    def __init__(self, value: Any, type_: Type) -> None:
        self.blocks: list[Guarded] = []
        self.kept = value = self._guarded(value)
        name = _name(type_)
        self.adapted = sequences.adapt_value(value, "guarded", "input", name)
        self.tensor = Tensor(self.adapted.ctypes.data, sequences.DTYPES.index(name), self.adapted.ndim)
        self.tensor.shape[: self.adapted.ndim] = self.adapted.shape

    def _guarded(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple):
            return [self._guarded(v) for v in value]
        array = np.asarray(value, order="C")
        if array.dtype == object:
            return array
        block = Guarded(max(array.nbytes, array.itemsize))
        self.blocks.append(block.write(array.tobytes()))
        memory = (ctypes.c_char * block.size).from_address(block.address)
        return np.ndarray(array.shape, array.dtype, memory)


def _name(type_: Type) -> str:
    match type_:
        case SequenceType():
            return "sequence"
        case OptionalType():
            return "optional"
        case TensorType(dtype=dtype) | UnrankedType(dtype=dtype):
            return dtype
    raise TypeError(f"{type_} has no native form")


def _value(tensor: Any, type_: Type) -> Any:
    """A copy of an output."""
    memory = (ctypes.c_char * tensor.capacity).from_address(tensor.data)
    name, shape = _name(type_), tuple(tensor.shape[: tensor.ndim])
    found = sequences.value_from_memory(memory, name, shape) if name in (*sequences.OBJECTS, "string") else None
    return _array(memory, name, shape) if found is None and name not in sequences.OBJECTS else _copied(found)


def _array(memory: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.ndarray(shape, dtypes.numpy_dtype(dtype), memory).copy()


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return None if value is None else value.copy()


class GuardedSession:
    """A session of ``compiled`` whose states, arenas and results are guarded; loops run in ``threads`` chunks."""

    def __init__(self, compiled: CompiledModel, capacity: int = 0, threads: int = 2) -> None:
        self._code = JitLibrary(compiled.objects, [MODEL_SYMBOL])
        self._native, self._error, self._host = _library(), _Error(), GuardedHost(threads)
        for name in ("forge_session_new", "forge_model_find"):
            getattr(self._native, name).restype = ctypes.c_void_p
        self._weights = Guarded(compiled.weights.size, 64).write(compiled.weights.tobytes())
        self._kept = _prepared(self._native, self._code.addresses[MODEL_SYMBOL], self._weights, self._error)
        self._model = self._kept.__enter__()
        options = ctypes.byref(ctypes.c_int64(capacity))
        session = self._native.forge_session_new(self._model, ctypes.byref(self._host.struct), options, ctypes.byref(self._error))
        assert session, self._error.message
        self._session = ctypes.c_void_p(session)

    def call(self, graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Outputs of the function that ``graph`` was compiled to, but for those that are states.

        Raises:
            RuntimeError: the call failed.
        """
        native, kept = self._native, {state.output for state in graph.states.values()}
        function = ctypes.c_void_p(native.forge_model_find(self._model, graph.name.encode()))
        given = [_Input(inputs[v.name], v.type) for v in _given(graph)]
        values = [v for number, v in enumerate(graph.outputs) if number not in kept]
        table = (Tensor * max(1, len(given)))(*[x.tensor for x in given])
        outputs = (Tensor * max(1, len(values)))()
        if native.forge_session_run(self._session, function, table, outputs, None, ctypes.byref(self._error)):
            raise RuntimeError(self._error.message.decode())
        results = [_value(t, v.type) for t, v in zip(outputs, values, strict=False)]
        for tensor in outputs[: len(values)]:
            native.forge_free_output(ctypes.byref(self._host.struct), ctypes.byref(tensor))
        for array, block in [(inputs[v.name], b) for v, x in zip(_given(graph), given, strict=True) for b in x.blocks]:
            block.check("input")
            assert block.read().startswith(array.tobytes()), "an input was written"
        return results

    def reset(self) -> None:
        """Unsets all states."""
        assert self._native.forge_session_reset(self._session, ctypes.byref(self._error)) == 0

    def close(self) -> None:
        """Frees everything; all memory that the host gave must come back, and nothing before the weights may be written."""
        self._native.forge_session_free(self._session)
        self._kept.__exit__(None, None, None)
        assert not self._host.blocks, f"{len(self._host.blocks)} blocks of memory were not given back"
        self._weights.check("weights")


def _given(graph: Graph) -> list[Value]:
    return [v for v in graph.inputs if v.name not in graph.states]
