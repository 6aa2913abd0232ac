"""Loop IR without complex numbers: every complex expression becomes its real and imaginary part.

``out[i] = a[i] * b[i]``  -->  ``out[2 i] = a_re b_re - a_im b_im; out[2 i + 1] = a_re b_im + a_im b_re``

Parameters become buffers of parts side by side: contiguous vectors are loaded and stored whole and their lanes dealt out;
any other access makes two. A local buffer becomes two. Runs after scheduling, so vectors stay vectors. Functions other than
sums and products of complex64 are computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from forge import dtypes
from forge.errors import CompileError
from forge.tir import complex_math, stmt
from forge.tir import expr as tir
from forge.tir.complex_math import Pair
from forge.tir.expr import Buffer, Call, Const, Expr, Load, Var
from forge.tir.rewrite import map_parts, with_children
from forge.tir.stmt import Function, Stmt


def run(function: Function) -> Function:
    """``function`` on real numbers; its parameters keep their order.

    Raises:
        CompileError: an expression has no meaning on complex numbers.
    """
    return _Splitter(function).function()


class _Splitter:
    def __init__(self, function: Function) -> None:
        self.original = function
        self.joined: dict[Buffer, Buffer] = {b: _interleaved(b) for b in function.buffers if dtypes.is_complex(b.dtype)}
        self.local: dict[Buffer, tuple[Buffer, Buffer]] = {}
        self.variables: dict[Var, tuple[Var, Var]] = {}
        self.plain_memo: dict[Expr, Expr] = {}
        self.pair_memo: dict[Expr, Pair] = {}

    def function(self) -> Function:
        f = self.original
        aliases = tuple((self.joined.get(a, a), self.joined.get(b, b)) for a, b in f.aliases)
        body = self.statement(f.body)
        return Function(f.name, tuple(self.joined.get(b, b) for b in f.buffers), f.scalars, body, aliases)

    def statement(self, s: Stmt) -> Stmt:
        match s:
            case stmt.Store(buffer=buffer) if dtypes.is_complex(buffer.dtype):
                return self._store(s)
            case stmt.Let(var=var, value=value) if dtypes.is_complex(var.dtype):
                return self._let(var, self.pair(value))
            case stmt.Allocate(buffer=buffer) if dtypes.is_complex(buffer.dtype):
                self.local[buffer] = _parts_of(buffer)
                return stmt.seq(*(stmt.Allocate(part) for part in self.local[buffer]))
            case stmt.CallRoutine(name=name, buffers=buffers, scalars=scalars):
                given = tuple(self._joined(b) if dtypes.is_complex(b.dtype) else b for b in buffers)
                return stmt.CallRoutine(name, given, tuple(self.plain(x) for x in scalars))
            case stmt.Evaluate(value=value) if dtypes.is_complex(value.dtype):
                return stmt.seq(*(stmt.Evaluate(x) for x in self.pair(value)))
        return map_parts(s, self.plain, self.statement)

    def _let(self, var: Var, value: Pair) -> Stmt:
        """Where both branches of a condition bind ``var``, what follows is shared, and so are its parts."""
        if var not in self.variables:
            parts = (Var(v.dtype, v.lanes, f"{var.name}_{part}") for v, part in zip(value, ("re", "im")))
            self.variables[var] = next(parts), next(parts)
        real, imag = self.variables[var]
        return stmt.seq(stmt.Let(real, value[0]), stmt.Let(imag, value[1]))

    def _store(self, s: stmt.Store) -> Stmt:
        index, mask = self.plain(s.index), None if s.mask is None else self.plain(s.mask)
        real, imag = self.pair(s.value)
        if s.buffer in self.local:
            return _store_both(self.local[s.buffer], (index, index), (real, imag), mask)
        buffer = self._joined(s.buffer)
        if _is_contiguous(index):
            lanes = index.lanes
            order = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
            return stmt.Store(buffer, _doubled(index), _shuffle(real, imag, order), _spread(mask))
        place = index * 2
        return _store_both((buffer, buffer), (place, place + 1), (real, imag), mask)

    def _joined(self, buffer: Buffer) -> Buffer:
        known = self.joined.get(buffer)
        if known is None:
            raise CompileError(f"lowering: complex buffer {buffer.name!r} is neither a parameter nor allocated before its use")
        return known

    def plain(self, x: Expr) -> Expr:
        """``x``, which is not complex, on real numbers."""
        known = self.plain_memo.get(x)
        if known is None:
            known = self.plain_memo[x] = self._plain(x)
        return known

    def _plain(self, x: Expr) -> Expr:
        complex_inside = any(dtypes.is_complex(c.dtype) for c in tir.children(x))
        if not complex_inside:
            return with_children(x, [self.plain(c) for c in tir.children(x)])
        match x:
            case tir.Compare(op=op, a=a, b=b):
                return self._compare(op, self.pair(a), self.pair(b))
            case tir.Cast(x=inner):
                return tir.cast(self.pair(inner)[0], x.dtype)
            case Call(name="real"):
                return self.pair(x.args[0])[0]
            case Call(name="imag"):
                return self.pair(x.args[0])[1]
            case Call(name="isnan" | "isinf" as name):
                real, imag = self.pair(x.args[0])
                return tir.binary("or", tir.call(name, real), tir.call(name, imag))
            case Call(name="abs"):
                return tir.cast(complex_math.modulus(_wide(self.pair(x.args[0]))), x.dtype)
        raise _meaningless(x)

    def _compare(self, op: str, a: Pair, b: Pair) -> Expr:
        if op not in ("eq", "ne"):
            raise CompileError(f"lowering: comparison {op!r} of complex numbers, which have no order; expected eq or ne")
        real, imag = (tir.compare(op, x, y) for x, y in zip(a, b))
        return tir.logical_and(real, imag) if op == "eq" else tir.binary("or", real, imag)

    def pair(self, x: Expr) -> Pair:
        """The parts of ``x``, which is complex."""
        known = self.pair_memo.get(x)
        if known is None:
            rule = _RULES.get(type(x))
            if rule is None:
                raise _meaningless(x)
            known = self.pair_memo[x] = rule(self, x)
        return known

    def load(self, x: Load) -> Pair:
        index, mask = self.plain(x.index), None if x.mask is None else self.plain(x.mask)
        if x.buffer in self.local:
            real, imag = (tir.load(part, index, mask) for part in self.local[x.buffer])
            return real, imag
        buffer = self._joined(x.buffer)
        if not _is_contiguous(index):
            place = index * 2
            return tir.load(buffer, place, mask), tir.load(buffer, place + 1, mask)
        both = tir.load(buffer, _doubled(index), _spread(mask))
        lanes = index.lanes
        return _shuffle(both, both, range(0, 2 * lanes, 2)), _shuffle(both, both, range(1, 2 * lanes, 2))

    def call(self, x: Call) -> Pair:
        if x.name in ("shuffle", "lane"):
            return self._move(x)
        if x.name == "complex":
            return self.plain(x.args[0]), self.plain(x.args[1])
        if x.name == "reinterpret":
            return self._reinterpret(x)
        pairs = [self.pair(a) for a in x.args]
        if x.name == "fma":
            (real, imag), c = complex_math.multiply(pairs[0], pairs[1]), pairs[2]
            return real + c[0], imag + c[1]
        if x.name == "reduce_add":
            return tir.call("reduce_add", pairs[0][0]), tir.call("reduce_add", pairs[0][1])
        if x.name == "reduce_mul":
            return _product_of_lanes(pairs[0])
        function = complex_math.FUNCTIONS.get(x.name)
        if function is None:
            raise _meaningless(x)
        return _narrow(function(*(_wide(p) for p in pairs)), x.dtype)

    def _move(self, x: Call) -> Pair:
        moved = [a for a in x.args if dtypes.is_complex(a.dtype)]
        numbers = x.args[len(moved) :]
        parts = zip(*(self.pair(a) for a in moved))
        real, imag = (tir.call(x.name, *vectors, *numbers, lanes=x.lanes) for vectors in parts)
        return real, imag

    def _reinterpret(self, x: Call) -> Pair:
        source = x.args[0]
        if dtypes.is_complex(source.dtype):
            return self.pair(source)
        if x.dtype != "complex64":
            raise _meaningless(x)
        bits = tir.call("reinterpret", self.plain(source), dtype="uint64")
        halves = (tir.cast(half, "uint32") for half in (bits, tir.binary("shr", bits, tir.const(32, "uint64"))))
        real, imag = (tir.call("reinterpret", half, dtype="float32") for half in halves)
        return real, imag


def _binary(s: _Splitter, x: tir.Binary) -> Pair:
    a, b = s.pair(x.a), s.pair(x.b)
    if x.op in ("add", "sub"):
        return tir.binary(x.op, a[0], b[0]), tir.binary(x.op, a[1], b[1])
    if x.op == "mul":
        return complex_math.multiply(a, b)
    if x.op == "div":
        return _narrow(complex_math.divide(_wide(a), _wide(b)), x.dtype)
    raise _meaningless(x)


def _cast(s: _Splitter, x: tir.Cast) -> Pair:
    target = dtypes.part(x.dtype)
    if dtypes.is_complex(x.x.dtype):
        real, imag = s.pair(x.x)
        return tir.cast(real, target), tir.cast(imag, target)
    return tir.cast(s.plain(x.x), target), tir.const(0.0, target, x.lanes)


def _select(s: _Splitter, x: tir.Select) -> Pair:
    return complex_math.select_pair(s.plain(x.condition), s.pair(x.a), s.pair(x.b))


def _constant(s: _Splitter, x: Const) -> Pair:
    value, target = complex(x.value), dtypes.part(x.dtype)
    return tir.const(value.real, target, x.lanes), tir.const(value.imag, target, x.lanes)


def _variable(s: _Splitter, x: Var) -> Pair:
    if x not in s.variables:
        raise CompileError(f"lowering: complex variable {x.name!r} is not bound before its use; expected a Let")
    return s.variables[x]


def _broadcast(s: _Splitter, x: tir.Broadcast) -> Pair:
    real, imag = s.pair(x.x)
    return tir.broadcast(real, x.lanes), tir.broadcast(imag, x.lanes)


_RULES: dict[type[Expr], Callable[..., Pair]] = {
    tir.Binary: _binary, tir.Cast: _cast, tir.Select: _select, Const: _constant, Var: _variable, tir.Broadcast: _broadcast,
    Load: _Splitter.load, Call: _Splitter.call,
}


def _meaningless(x: Expr) -> CompileError:
    name = x.name if isinstance(x, Call) else x.op if isinstance(x, tir.Binary) else type(x).__name__.lower()
    return CompileError(f"lowering: {name} of complex numbers has no machine code; expected an operation that they have")


def _interleaved(buffer: Buffer) -> Buffer:
    """A parameter as its parts, real and imaginary ones in turn."""
    if buffer.lanes != 1:
        raise CompileError(f"lowering: parameter {buffer.name!r} has complex vectors for elements; expected scalars")
    shape = (*buffer.shape, tir.const(2))
    return Buffer(buffer.name, dtypes.part(buffer.dtype), shape, buffer.scope, 1, buffer.alignment, buffer.writable)


def _parts_of(buffer: Buffer) -> tuple[Buffer, Buffer]:
    real, imag = (
        Buffer(f"{buffer.name}_{part}", dtypes.part(buffer.dtype), buffer.shape, buffer.scope, buffer.lanes, buffer.alignment)
        for part in ("re", "im")
    )
    return real, imag


def _store_both(buffers: tuple[Buffer, Buffer], places: Pair, values: Pair, mask: Expr | None) -> Stmt:
    """Two stores, after both values are known: they may depend on what is overwritten."""
    kept = [Var(v.dtype, v.lanes, name) for v, name in zip(values, ("re", "im"))]
    lets = [stmt.Let(var, v) for var, v in zip(kept, values)]
    return stmt.seq(*lets, *(stmt.Store(b, place, v, mask) for b, place, v in zip(buffers, places, kept)))


def _is_contiguous(index: Expr) -> bool:
    return isinstance(index, tir.Ramp) and tir.is_const(index.stride, 1)


def _doubled(index: Expr) -> Expr:
    """The places of both parts of contiguous elements."""
    assert isinstance(index, tir.Ramp)
    return tir.ramp(index.base * 2, 1, 2 * index.lanes)


def _spread(mask: Expr | None) -> Expr | None:
    """Every lane of ``mask`` twice."""
    return None if mask is None else _shuffle(mask, mask, [lane // 2 for lane in range(2 * mask.lanes)])


def _shuffle(a: Expr, b: Expr, order: range | list[int]) -> Expr:
    return tir.call("shuffle", a, b, *(tir.const(k) for k in order), lanes=len(order))


def _wide(z: Pair) -> Pair:
    return tir.cast(z[0], "float64"), tir.cast(z[1], "float64")


def _narrow(z: Pair, dtype: str) -> Pair:
    return tir.cast(z[0], dtypes.part(dtype)), tir.cast(z[1], dtypes.part(dtype))


def _product_of_lanes(z: Pair) -> Pair:
    """The product of all lanes: halves are multiplied until one lane is left (an odd lane joins at the end)."""
    rest: list[Pair] = []
    lanes = z[0].lanes
    while lanes > 1:
        if lanes % 2:
            rest.append(_lanes(z, lanes - 1, 1))
        lanes //= 2
        z = complex_math.multiply(_lanes(z, 0, lanes), _lanes(z, lanes, lanes))
    for odd in rest:
        z = complex_math.multiply(z, odd)
    return z


def _lanes(z: Pair, start: int, count: int) -> Pair:
    real, imag = (_shuffle(part, part, range(start, start + count)) for part in z)
    return real, imag
