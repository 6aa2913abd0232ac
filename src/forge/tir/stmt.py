"""Statements and functions of the loop IR.

Grammar::

    stmt = Seq(body...)
         | For(var, begin, extent, body, kind)      kind: serial | parallel | unrolled
         | Store(buffer, index, value, mask)        a scalar index stores one element, a Ramp of stride 1 a vector, else scatter
         | If(condition, then, otherwise)
         | Let(var, value)                          binds for the rest of the enclosing Seq
         | Allocate(buffer)                         a local buffer, for the rest of the enclosing Seq
         | Evaluate(expr)
         | Prefetch(buffer, index)                   a hint: that element will be read soon; it may lie outside of the buffer
         | Tiles(operation, numbers, values, buffer)  works on the tile registers, which no function keeps for another
         | Fail(status, message)                    reports an error to the host and ends the function; not in parallel loops
         | CallRoutine(name, buffers, scalars)      calls C code of the runtime; not in parallel loops
         | CallExtern(name, arguments)              calls a function of the user's; not in parallel loops
         | CallKernel(name, buffers, scalars)       entry functions only, as the rest: calls another function of the program
         | LoadSymbol(var, address)                 binds a size that an earlier kernel has computed
         | AllocateMemory(number, size) | FreeMemory(number) | AllocateOutput(number, shape, size) | Timestamp(address)
         | RunControl(control, operands, results)   runs a node of the program through the host
         | MoveOutput(result, number)               a result of such a node becomes an output

The iterations of a ``parallel`` loop run in chunks on the host's thread pool, in any order and each once; what stands before
it is done before any of them, what stands after it when all are done. It may stand in a serial loop; within another parallel
loop it is serial. ``unrolled`` loops have constant extents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from forge.tir.expr import Buffer, Expr, ExprLike, Var, as_expr

LOOP_KINDS = ("serial", "parallel", "unrolled")
STATUS_VALUE = 5
"""``FORGE_ERROR_VALUE``, which `Fail` reports for values that break a condition."""

STATUS_FUNCTION = 11
"""``FORGE_ERROR_FUNCTION``, which a function of the user's that fails is reported as."""


@dataclass(frozen=True, slots=True, eq=False)
class Stmt:
    """Base class."""


@dataclass(frozen=True, slots=True, eq=False)
class Seq(Stmt):
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Stmt):
    """``grain``: of a parallel loop, the least number of iterations that is worth a chunk of its own (None: 1).

    A loop of at most ``grain`` iterations runs in the calling thread.
    """

    var: Var
    begin: Expr
    extent: Expr
    body: Stmt
    kind: str = "serial"
    grain: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Store(Stmt):
    buffer: Buffer
    index: Expr
    value: Expr
    mask: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class If(Stmt):
    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Let(Stmt):
    var: Var
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Allocate(Stmt):
    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch(Stmt):
    """Asks for the cache line of one element, which may lie outside of ``buffer``: nothing is read."""

    buffer: Buffer
    index: Expr


TILE_ROWS = 16
TILE_BYTES = 64
"""Of a row of a tile register, at most."""
TILE_COUNT = 8
TILE_DOTS: dict[str, tuple[str, str, str]] = {
    "dot_bf16": ("bfloat16", "bfloat16", "float32"), "dot_f16": ("float16", "float16", "float32"),
    "dot_u8s8": ("uint8", "int8", "int32"), "dot_s8u8": ("int8", "uint8", "int32"),
    "dot_s8s8": ("int8", "int8", "int32"), "dot_u8u8": ("uint8", "uint8", "int32")}
"""What products of tiles multiply, and sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Tiles(Stmt):
    """An operation on the tile registers, which are ``TILE_COUNT`` of ``TILE_ROWS`` rows of ``TILE_BYTES``.

    ``configure``: registers 0, 1, ... have the rows and the bytes of a row that ``values`` are, in turn, and are 0. ``zero``:
    register ``numbers[0]`` is. ``load`` and ``store``: its rows are in ``buffer`` from element ``values[0]`` on, ``values[1]``
    elements apart. One of ``TILE_DOTS``: to the sums in the first of ``numbers``, each of 32 bits, the products of the second and
    the third are added: words of rows of that times rows of this, a word being two bfloat16 or float16, or four bytes.
    ``release``: nothing needs the registers any more.
    """

    operation: str
    numbers: tuple[int, ...] = ()
    values: tuple[Expr, ...] = ()
    buffer: Buffer | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Stmt):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Fail(Stmt):
    """``status`` is a ``forge_status``."""

    status: int
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class CallRoutine(Stmt):
    """Calls C routine ``name`` of the runtime: ``int32 name(buffer pointers..., int64 scalars..., const forge_host *)``.

    A status other than 0 ends the function with it. It stands outside of parallel loops.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ExternTensor:
    """A tensor that a function of the user's gets: elements of ``buffer`` in C order."""

    buffer: Buffer
    shape: tuple[Expr, ...]
    dtype: str


ExternArgument = ExternTensor | Expr | str
"""Expressions are int64 or float64, and texts constants."""


@dataclass(frozen=True, slots=True, eq=False)
class CallExtern(Stmt):
    """Calls C function ``name``: ``int32 name(const forge_extern_value *, const int32 *kinds, int32 count)``.

    ``forge/extern.h`` has the types. A status other than 0 is reported to the host, with the ``place`` in the model, and ends the
    function. It stands outside of parallel loops.
    """

    name: str
    arguments: tuple[ExternArgument, ...]
    place: str = ""

    @property
    def tensors(self) -> tuple[ExternTensor, ...]:
        return tuple(a for a in self.arguments if isinstance(a, ExternTensor))


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """``base`` + ``offset`` bytes.

    ``base`` names one of the entry's pointers: ("input", i), ("output", i), ("weights", 0), ("arena", 0), ("dynamic", i),
    ("shape", i): the extents of result i of a control-flow node.
    """

    base: tuple[str, int]
    offset: Expr


@dataclass(frozen=True, slots=True, eq=False)
class CallKernel(Stmt):
    """Calls function ``name`` with pointers for its buffers and values for its scalars, in the order of its parameters.

    A status other than 0 ends the entry with that status.
    """

    name: str
    buffers: tuple[Address, ...]
    scalars: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LoadSymbol(Stmt):
    """Binds ``var`` to the int64 at ``address`` for the rest of the entry."""

    var: Var
    address: Address


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A number of bytes. ``estimate`` (float64) is the same without overflow: a size that it shows to be absurd is refused."""

    bytes: Expr
    estimate: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AllocateMemory(Stmt):
    """Defines base ("dynamic", ``number``); it is freed by ``FreeMemory`` or when the entry fails."""

    number: int
    size: Size


@dataclass(frozen=True, slots=True, eq=False)
class FreeMemory(Stmt):
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class AllocateOutput(Stmt):
    """Defines base ("output", ``number``) and the shape of that output, whose size is known only now."""

    number: int
    shape: tuple[Expr, ...]
    size: Size


@dataclass(frozen=True, slots=True, eq=False)
class Timestamp(Stmt):
    """Stores the processor's cycle counter (int64) at ``address``: how a profile measures the time between kernels."""

    address: Address


@dataclass(frozen=True, slots=True, eq=False)
class ControlOperand:
    """A tensor that a node of the host reads; without address it has no elements and only its sizes are wanted.

    With ``result`` it is that result of an earlier node of the host, whatever its sizes.
    """

    address: Address | None
    dtype: str
    shape: tuple[Expr, ...]
    result: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ControlResult:
    """Defines bases ("dynamic", ``number``), freed as by ``AllocateMemory``, and ("shape", ``number``).

    None: any extent; any rank. With ``address`` it is written there, and defines nothing.
    """

    number: int
    dtype: str
    shape: tuple[Expr | None, ...] | None
    address: Address | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RunControl(Stmt):
    """Runs control-flow node number ``control`` of the program."""

    control: int
    operands: tuple[ControlOperand, ...]
    results: tuple[ControlResult, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MoveOutput(Stmt):
    """Makes result ``result`` of a node of the host the output ``number``, with its sizes."""

    result: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One kernel. Native signature: ``int32 name(buffer pointers..., int64 scalars..., host*)``; 0 means success.

    Buffers of one function do not overlap, unless two are the same ``Buffer`` object or are listed in ``aliases``
    (pairs of an input and the output that overwrites it element by element). ``most_optimized``: the highest level of LLVM's
    passes.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Var, ...]
    body: Stmt
    aliases: tuple[tuple[Buffer, Buffer], ...] = field(default=())
    most_optimized: int = 3


def seq(*body: Stmt | Iterable[Stmt]) -> Stmt:
    """Statements in order; nested sequences are flattened."""
    flat: list[Stmt] = []
    for item in body:
        for statement in [item] if isinstance(item, Stmt) else list(item):
            flat.extend(statement.body if isinstance(statement, Seq) else [statement])
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def loop(
    var: Var, extent: ExprLike, body: Stmt, kind: str = "serial", begin: ExprLike = 0, grain: ExprLike | None = None
) -> Stmt:
    if kind not in LOOP_KINDS:
        raise ValueError(f"loop kind {kind!r}; expected one of {LOOP_KINDS}")
    return For(var, as_expr(begin), as_expr(extent), body, kind, None if grain is None else as_expr(grain))


def store(buffer: Buffer, index: ExprLike, value: Expr, mask: Expr | None = None) -> Stmt:
    index = as_expr(index)
    if value.dtype != buffer.dtype:
        raise TypeError(f"store of {value.dtype} into {buffer.name} of {buffer.dtype}")
    if value.lanes != buffer.lanes * index.lanes:
        raise ValueError(f"store of {value.lanes} lanes into {buffer.name} with {index.lanes} indices of {buffer.lanes} lanes")
    return Store(buffer, index, value, mask)
