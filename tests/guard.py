"""Runs compiled code with every buffer ending at an inaccessible page: a byte read or written after one kills the process.

Inputs and outputs end exactly at the page, so their start has the alignment of an element at most; weights and arena keep the 64
bytes that the interface promises. Memory that the entry asks the host for is guarded in the same way. Bytes in front of
inputs, outputs and requested memory hold a pattern that is checked afterwards.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.backends.compiled import CompiledModel
from forge.codegen.abi import ABI_VERSION
from forge.codegen.jit import JitLibrary
from forge.codegen.tables import MODEL_SYMBOL
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.tir.expr import Const, Expr, Var, const
from forge.tir.library import Program, StateMemory, TensorSpec
from forge.tir.rewrite import Rewriter

PAGE = mmap.PAGESIZE
PATTERN = 0xA5
MAX_RANK = 8

_libc = ctypes.CDLL(None, use_errno=True)
_BODY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_PARALLEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
_PROCEED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)
_HEAP = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Host(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_int32), ("state", ctypes.c_void_p), ("alloc", _ALLOC), ("free", _FREE),
        ("parallel_for", _PARALLEL), ("report_error", _REPORT), ("call_registered", ctypes.c_void_p),
        ("run_control", ctypes.c_void_p), ("heap_alloc", _HEAP), ("proceed", _PROCEED),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK), ("capacity", ctypes.c_int64),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("abi", "n_inputs", "n_outputs", "n_symbols", "n_dims", "reserved")),
        *((name, ctypes.c_void_p) for name in ("name", "features", "symbol_names", "inputs", "outputs", "weights")),
        ("weights_size", ctypes.c_int64),
        ("arena_size", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)),
        ("dims", ctypes.c_void_p),
        ("entry", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)),
    ]


class _Call(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("inputs", "outputs", "weights", "arena", "symbols", "host", "out")]


@dataclass
class Guarded:
    """``size`` bytes that end at an inaccessible page (rounded to ``alignment`` first)."""

    size: int
    alignment: int = 1
    memory: mmap.mmap = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        room = -(-self.size // self.alignment) * self.alignment
        pages = -(-room // PAGE) + 1
        self.memory = mmap.mmap(-1, (pages + 1) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        end = base + pages * PAGE
        ctypes.memset(base, PATTERN, pages * PAGE)
        if _libc.mprotect(ctypes.c_void_p(end), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.base, self.address = base, end - room

    def write(self, data: bytes) -> Guarded:
        ctypes.memmove(self.address, data, len(data))
        return self

    def read(self) -> bytes:
        return ctypes.string_at(self.address, self.size)

    def check(self, what: str) -> None:
        before = ctypes.string_at(self.base, self.address - self.base)
        assert before == bytes([PATTERN]) * len(before), f"{what}: bytes in front of the buffer were written"


class GuardedHost:
    """Gives out guarded memory and runs loops in as many chunks as ``threads``, the last one first, on this thread."""

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self.blocks: dict[int, Guarded] = {}
        self.error = ""
        functions = (_ALLOC(self._alloc), _FREE(self._free), _PARALLEL(self._parallel), _REPORT(self._report))
        self.heap: list[Guarded] = []
        self.struct = _Host(ABI_VERSION, None, *functions, None, None, _HEAP(self._heap_alloc),
                            _PROCEED(lambda _host, status: status))

    def _alloc(self, _host: Any, size: int, alignment: int) -> int:
        block = Guarded(size, alignment)
        self.blocks[block.address] = block
        return block.address

    def _heap_alloc(self, _host: Any, size: int) -> int:
        self.heap.append(Guarded(size))
        return self.heap[-1].address

    def _free(self, _host: Any, address: int, _size: int) -> None:
        self.blocks.pop(address).check("requested memory")

    def _parallel(self, _host: Any, body: int, closure: int, count: int, _grain: int) -> int:
        run = _BODY(body)
        bounds = [count * k // self.threads for k in range(self.threads + 1)]
        for begin, end in reversed(list(itertools.pairwise(bounds))):
            status = run(begin, end, closure) if end > begin else 0
            if status:
                return int(status)
        return 0

    def _report(self, _host: Any, _status: int, message: bytes) -> None:
        self.error = self.error or message.decode()


CHUNKS = (2, 1, 3)
"""Into how many chunks the host cuts parallel loops, one run after the other."""


def run(compiled: CompiledModel, graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of ``compiled``, which was made from ``graph``, with all buffers guarded; the same bits for all ``CHUNKS``.

    Raises:
        RuntimeError: the code reported an error.
    """
    code = JitLibrary(compiled.objects, [MODEL_SYMBOL])
    results, *others = [_run_once(compiled, graph, inputs, code.addresses[MODEL_SYMBOL], threads) for threads in CHUNKS]
    for threads, other in zip(CHUNKS[1:], others, strict=True):
        for position, (a, b) in enumerate(zip(results, other, strict=True)):
            assert _bits(a) == _bits(b), f"output {position} differs between {CHUNKS[0]} chunks and {threads}"
    return results


def _bits(array: np.ndarray) -> object:
    return (array.shape, array.tolist() if array.dtype == object else array.tobytes())


def _run_once(
    compiled: CompiledModel, graph: Graph, inputs: Sequence[np.ndarray], address: int, threads: int
) -> list[np.ndarray]:
    model = _Model.from_address(address)
    assert compiled.lowered is not None
    program = compiled.lowered.functions[0].program
    assert not program.controls, "this host runs no nodes: use tests.guard_runtime"
    known = _bind(graph, inputs)
    symbols = (ctypes.c_int64 * max(1, len(program.symbols)))(*[known.get(v.name, -1) for v in program.symbols])
    characters = [_characters(a) for a in inputs]
    blocks = [Guarded(_bytes(a.shape, _item_size(a)), 8 if c else 1).write(_contents(a, c)) for a, c in zip(inputs, characters)]
    shapes = [_known_shape(v, spec, known) for v, spec in zip(graph.outputs, program.outputs, strict=True)]
    outs, tensors = _outputs(graph, shapes)
    shared = shared_pairs(program)
    for output, number in shared.items():
        room = outs[output]
        assert room is not None
        blocks[number] = room.write(_contents(inputs[number], None))
    weights = Guarded(compiled.weights.size, 64).write(compiled.weights.tobytes())
    arena = Guarded(max(0, model.arena_size(ctypes.addressof(symbols))), 64)
    host = GuardedHost(threads)
    input_table = (ctypes.c_void_p * max(1, len(blocks)))(*[b.address for b in blocks])
    output_table = (ctypes.c_void_p * max(1, len(outs)))(*[None if o is None else o.address for o in outs])
    call = _Call(
        ctypes.addressof(input_table), ctypes.addressof(output_table), weights.address, arena.address, ctypes.addressof(symbols),
        ctypes.addressof(host.struct), ctypes.addressof(tensors),
    )
    status = model.entry(ctypes.addressof(call))
    if status:
        raise RuntimeError(host.error or f"status {status}")
    texts = [c for c in characters if c is not None]
    for what, group in (("input", blocks), ("output", outs), ("weights", [weights]), ("arena", [arena]), ("characters", texts),
                        ("heap", host.heap)):
        for block in group:
            if block is not None:
                block.check(what)
    for number, (array, block, text) in enumerate(zip(inputs, blocks, characters)):
        if number not in shared.values():
            assert block.read().startswith(_contents(array, text)), f"input {number} was written"
    results = zip(graph.outputs, shapes, outs, tensors, strict=False)
    return [_result(v.dtype, shape, o, t) for v, shape, o, t in results]


def shared_pairs(program: Program) -> dict[int, int]:
    """The inputs whose memory outputs take, by number of the output."""
    pairs = {k: number for k, number in enumerate(program.donated) if number is not None}
    bound = [b for b in program.bindings if b.memory is not StateMemory.REPLACED]
    return pairs | {b.output: b.input for b in bound if b.output is not None and b.input is not None}


def _item_size(array: np.ndarray) -> int:
    return dtypes.STRING_SIZE if array.dtype == object else array.itemsize


def _encoded(array: np.ndarray) -> list[bytes]:
    return [text.encode("utf-8", "surrogateescape") for text in array.reshape(-1).tolist()]


def _characters(array: np.ndarray) -> Guarded | None:
    """The characters of strings, one after the other; None for numbers."""
    if array.dtype != object:
        return None
    together = b"".join(_encoded(array))
    return Guarded(len(together)).write(together)


def _contents(array: np.ndarray, characters: Guarded | None) -> bytes:
    """The bytes of an array as compiled code has it."""
    if characters is None:
        return array.tobytes()
    sizes = list(map(len, _encoded(array)))
    begins = itertools.accumulate([characters.address, *sizes])
    return np.array(list(zip(begins, sizes, strict=False)), np.int64).tobytes()


def _strings(data: bytes, shape: Sequence[int]) -> np.ndarray:
    pairs = np.frombuffer(data, np.int64)[: 2 * math.prod(shape)].reshape(-1, 2).tolist()
    result = np.empty(len(pairs), object)
    result[:] = [ctypes.string_at(begin, size).decode("utf-8", "surrogateescape") if size else "" for begin, size in pairs]
    return result.reshape(shape)


def _bytes(shape: Sequence[int], itemsize: int) -> int:
    """Of a tensor; the runtime lets kernels read and discard from an empty one as if each extent were at least 1."""
    return int(np.prod(shape, dtype=np.int64) or np.prod([max(1, d) for d in shape], dtype=np.int64)) * itemsize


def _bind(graph: Graph, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    known: dict[str, int] = {}
    for value, array in zip(graph.inputs, inputs, strict=True):
        for extent, size in zip(value.shape, array.shape, strict=True):
            if not isinstance(extent, int) and dims.symbols(extent) == [str(extent)]:
                known.setdefault(str(extent), size)
    return known


def _known_shape(value: Value, spec: TensorSpec, known: dict[str, int]) -> list[int] | None:
    """The shape of an output, as far as it is known before the run; folding may have found a size that the graph leaves open."""
    if set(dims.symbols(*value.shape)) <= set(known):
        return [dims.evaluate(d, known) for d in value.shape]
    sizes = [_known_size(d, known) for d in spec.dims]
    return None if any(s is None for s in sizes) else [s for s in sizes if s is not None]


def _known_size(size: Expr, known: dict[str, int]) -> int | None:
    number = Rewriter(lambda e: const(known[e.name]) if isinstance(e, Var) and e.name in known else None)(size)
    return int(number.value) if isinstance(number, Const) else None  # type: ignore[arg-type]


def _outputs(graph: Graph, shapes: Sequence[list[int] | None]) -> tuple[list[Guarded | None], Any]:
    """Memory for outputs of known size, and the descriptors of all."""
    tensors = (Tensor * max(1, len(graph.outputs)))()
    sizes = [dtypes.itemsize(v.dtype) for v in graph.outputs]
    return [None if s is None else Guarded(_bytes(s, n)) for s, n in zip(shapes, sizes, strict=True)], tensors


def _result(dtype: str, shape: list[int] | None, block: Guarded | None, tensor: Any) -> np.ndarray:
    sizes = list(tensor.shape[: tensor.ndim]) if shape is None else shape
    kind = dtypes.numpy_dtype(dtype)
    data = ctypes.string_at(tensor.data, math.prod(sizes) * dtypes.itemsize(dtype)) if block is None else block.read()
    return _strings(data, sizes) if dtype == "string" else np.frombuffer(data, kind)[: math.prod(sizes)].reshape(sizes)
