"""The QR algorithm and eigenvectors of triangular matrices, one matrix after the other: schur, triangular_eigenvectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from forge import dtypes
from forge.kernels.cpu.factorization import Matrix, as_number, batch_loops, conjugate, each_element, magnitude, real_dtype
from forge.kernels.cpu.orthogonal import squared
from forge.loops import Cell, clamped, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq

ROUNDS: Final = 30
"""For each row, at most; two or three are usual."""

EXCEPTIONAL: Final = 10
"""After as many rounds without a new zero, shifts are not eigenvalues, to leave a cycle."""

EPSILON: Final = float(np.finfo(np.float64).eps)
HUGE: Final = 1e100


def _with_sign(size: Expr, like: Expr) -> Expr:
    return E.select(like < 0.0, E.negate(size), size)


class _Iteration:
    """One matrix, from row ``low`` to ``high`` of which the iteration works; rows after ``high`` are finished."""

    def __init__(self, form: Matrix, vectors: Matrix, size: Expr) -> None:
        self.form, self.vectors, self.size = form, vectors, size
        self.dtype = form.dtype
        self.is_complex = dtypes.is_complex(self.dtype)
        self.bottom, self.top, self.idle = Cell("bottom"), Cell("top"), Cell("idle")
        self.parts = [Cell(f"part_{k}", self.dtype) for k in range(3)]
        self.high, self.low = E.var("high"), E.var("low")

    def allocate(self) -> Stmt:
        return seq(cell.allocate() for cell in (self.bottom, self.top, self.idle, *self.parts))

    def run(self) -> Stmt:
        """Rounds until all rows are finished; ``bottom`` is -1 then."""
        finished = self.low.eq(self.high) if self.is_complex else self.low.eq(self.high) | (self.low + 1).eq(self.high)
        block = () if self.is_complex else If(self.low < self.high, self._split_block())
        deflate = seq(block, self.bottom.set(self.low - 1), self.idle.set(0))
        first_column = self._single_shift() if self.is_complex else self._double_shift()
        chase = seq(self.idle.set(self.idle.value + 1), first_column, self._chase())
        bounds = Let(self.high, self.bottom.value), self._find_top(), Let(self.low, self.top.value)
        one = seq(bounds, If(finished, deflate, chase))
        start = seq(self.bottom.set(self.size - 1), self.idle.set(0))
        return seq(start, loop(E.var("round"), self.size * ROUNDS, If(self.bottom.value >= 0, one)))

    def _find_top(self) -> Stmt:
        """Sets ``top`` to the first row above which nothing but 0 is left of the diagonal, or what is taken for it."""
        form, k, step = self.form, E.var("k"), E.var("step")
        neighbours = magnitude(form.load(k - 1, k - 1)) + magnitude(form.load(k, k))
        found = seq(form.store(k, k - 1, E.const(0, self.dtype)), self.top.set(k))
        look = seq(Let(k, self.high - step), If(magnitude(form.load(k, k - 1)) > neighbours * EPSILON, seq(), found))
        return seq(self.top.set(0), loop(step, self.high, If(self.top.value.eq(0), look)))

    def _is_exceptional(self) -> Expr:
        return self.idle.value.eq(EXCEPTIONAL) | self.idle.value.eq(2 * EXCEPTIONAL)

    def _single_shift(self) -> Stmt:
        """Sets ``parts`` to a column of the matrix less the eigenvalue of the last two rows nearer to the last element."""
        form, high, low = self.form, self.high, self.low
        half, product, root, shift, last = (E.Var(self.dtype, 1, name) for name in ("half", "product", "root", "shift", "last"))
        near = E.Var(self.dtype, 1, "near")
        divisor = E.select(magnitude(half + root) > magnitude(half - root), half + root, half - root)
        wilkinson = E.select(magnitude(divisor).eq(0.0), last, last - product / divisor)
        exceptional = last + as_number(magnitude(form.load(high, high - 1)) * 0.75, self.dtype)
        return seq(
            Let(last, form.load(high, high)),
            Let(half, (form.load(high - 1, high - 1) - last) * 0.5),
            Let(product, form.load(high - 1, high) * form.load(high, high - 1)),
            Let(root, E.call("sqrt", half * half + product)),
            Let(near, wilkinson),
            Let(shift, E.select(self._is_exceptional(), exceptional, near)),
            self.parts[0].set(form.load(low, low) - shift),
            self.parts[1].set(form.load(low + 1, low)),
            self.parts[2].set(0.0),
        )

    def _double_shift(self) -> Stmt:
        """Sets ``parts`` to a column of the matrix less both eigenvalues of the last two rows: the product is real."""
        form, high, low = self.form, self.high, self.low
        names = ("last", "before", "product", "size", "first", "below", "r", "s")
        last, before, product, size, first, below, r, s = (E.Var(self.dtype, 1, name) for name in names)
        odd = self._is_exceptional()
        return seq(
            Let(size, magnitude(form.load(high, high - 1)) + magnitude(form.load(high - 1, high - 2))),
            Let(last, form.load(high, high) + E.select(odd, size * 0.75, E.const(0.0, self.dtype))),
            Let(before, E.select(odd, last, form.load(high - 1, high - 1))),
            Let(product, E.select(odd, size * size * -0.4375, form.load(high, high - 1) * form.load(high - 1, high))),
            Let(first, form.load(low, low)),
            Let(below, form.load(low + 1, low)),
            Let(r, last - first),
            Let(s, before - first),
            self.parts[0].set((r * s - product) / below + form.load(low, low + 1)),
            self.parts[1].set(form.load(low + 1, low + 1) - first - r - s),
            self.parts[2].set(form.load(low + 2, low + 1)),
        )

    def _chase(self) -> Stmt:
        """Reflections of two or three rows, from the first column on, each of which moves on what the one before left."""
        form, k, third = self.form, E.var("k"), E.var("third")
        scale, beta = (E.Var(real_dtype(self.dtype), 1, name) for name in ("scale", "beta"))
        tau, divisor, second_part, third_part = (E.Var(self.dtype, 1, name) for name in ("tau", "divisor", "second", "third"))
        is_last = (k + 1).eq(self.high)
        zero = E.const(0, self.dtype)
        beyond = zero if self.is_complex else E.select(is_last, zero, form.load(third, k - 1))
        first, second, other = (part.value for part in self.parts)
        head = E.Var(self.dtype, 1, "head")
        real = E.real_part(head) if self.is_complex else head
        norm = E.call("sqrt", squared(head) + squared(second / as_number(scale, self.dtype))
                      + squared(other / as_number(scale, self.dtype)))
        note = seq(form.store(k, k - 1, as_number(beta * scale, self.dtype)), form.store(k + 1, k - 1, zero),
                   form.store(third, k - 1, zero))
        reflect = seq(
            Let(head, first / as_number(scale, self.dtype)),
            Let(beta, E.negate(_with_sign(norm, real))),
            Let(tau, (as_number(beta, self.dtype) - head) / as_number(beta, self.dtype)),
            Let(divisor, (head - as_number(beta, self.dtype)) * as_number(scale, self.dtype)),
            Let(second_part, second / divisor),
            Let(third_part, other / divisor),
            If(k > self.low, note),
            self._apply(k, third, tau, second_part, third_part),
        )
        taken = seq(self.parts[0].set(form.load(k, k - 1)), self.parts[1].set(form.load(k + 1, k - 1)), self.parts[2].set(beyond))
        step = seq(
            Let(third, k + 1 if self.is_complex else E.select(is_last, k + 1, k + 2)),
            If(k > self.low, taken),
            Let(scale, magnitude(first) + magnitude(second) + magnitude(other)),
            If(scale.ne(0.0), reflect),
        )
        return loop(k, self.high - self.low, step, begin=self.low)

    def _apply(self, k: Expr, third: Expr, tau: Expr, second: Expr, other: Expr) -> Stmt:
        """A reflection of rows k, k + 1 and ``third``, of the columns with these numbers, and of those of the vectors."""
        total, at = E.Var(self.dtype, 1, "total"), E.var("at")

        def change(load: Callable[[Expr], Expr], put: Callable[[Expr, Expr], Stmt], tau: Expr, parts: Sequence[Expr]) -> Stmt:
            a, b = parts
            return seq(
                Let(total, (load(k) + a * load(k + 1) + b * load(third)) * tau),
                put(k, load(k) - total),
                put(k + 1, load(k + 1) - conjugate(a) * total),
                put(third, load(third) - conjugate(b) * total),
            )

        def in_row(matrix: Matrix) -> Stmt:
            return change(lambda j: matrix.load(at, j), lambda j, v: matrix.store(at, j, v), tau, (second, other))

        rows = change(lambda i: self.form.load(i, at), lambda i, v: self.form.store(i, at, v), conjugate(tau),
                      (conjugate(second), conjugate(other)))
        return seq(
            loop(at, self.size - k, rows, begin=k),
            loop(at, E.binary("min", self.high, k + 3) + 1, in_row(self.form)),
            loop(at, self.size, in_row(self.vectors)),
        )

    def _split_block(self) -> Stmt:
        """A rotation that makes the two rows triangular, or the elements on their diagonal equal."""
        form, low, high = self.form, self.low, self.high
        names = ("a", "b", "c", "d", "half", "scale", "square", "shift", "x", "y", "length", "mean")
        a, b, c, d, half, scale, square, shift, x, y, length, mean = (E.Var(self.dtype, 1, name) for name in names)
        one, zero = E.const(1.0, self.dtype), E.const(0.0, self.dtype)
        root = E.call("sqrt", scale) * E.call("sqrt", E.binary("max", square, zero))
        is_real = square >= -4 * EPSILON
        by_row = magnitude(b) + magnitude(shift - half * 2.0) > magnitude(shift) + magnitude(c)
        angle = E.call("atan2", E.select(b + c < 0.0, half, E.negate(half)) * 2.0, magnitude(b + c)) * 0.5
        equal = seq(Let(mean, (form.load(low, low) + form.load(high, high)) * 0.5),
                    form.store(low, low, mean), form.store(high, high, mean))
        return seq(
            [Let(v, form.load(*place)) for v, place in ((a, (low, low)), (b, (low, high)), (c, (high, low)), (d, (high, high)))],
            Let(half, (a - d) * 0.5),
            Let(scale, E.binary("max", magnitude(half), E.binary("max", magnitude(b), magnitude(c)))),
            Let(square, half / scale * half + b / scale * c),
            Let(shift, half + _with_sign(root, half)),
            Let(x, E.select(is_real, E.select(by_row, b, shift), E.call("cos", angle))),
            Let(y, E.select(is_real, E.select(by_row, shift - half * 2.0, c), E.call("sin", angle))),
            Let(length, E.call("sqrt", squared(x / scale) + squared(y / scale)) * scale),
            self._rotate(E.select(length.eq(0.0), one, x / length), E.select(length.eq(0.0), zero, y / length)),
            If(is_real, form.store(high, low, zero), equal),
        )

    def _rotate(self, cosine: Expr, sine: Expr) -> Stmt:
        low, high, at = self.low, self.high, E.var("at")
        c, s, x, y = (E.Var(self.dtype, 1, name) for name in ("c", "s", "x", "y"))

        def pair(matrix: Matrix, first: tuple[Expr, Expr], second: tuple[Expr, Expr]) -> Stmt:
            return seq(Let(x, matrix.load(*first)), Let(y, matrix.load(*second)),
                       matrix.store(*first, c * x + s * y), matrix.store(*second, c * y - s * x))

        return seq(
            Let(c, cosine), Let(s, sine),
            loop(at, self.size - low, pair(self.form, (low, at), (high, at)), begin=low),
            loop(at, high + 1, pair(self.form, (at, low), (at, high))),
            loop(at, self.size, pair(self.vectors, (at, low), (at, high))),
        )


@kernel("schur", complex_numbers=True)
def schur(call: KernelCall) -> Function:
    """Family of ``linalg.schur``: operands data, vectors; results the triangular matrix, the vectors, and what is not finished.

    Francis' iteration with implicit shifts: one of complex matrices, two of real ones. The matrix is divided by its largest
    element first, so that squares are in range.
    """
    data, given = call.readers
    loops, batch = batch_loops(data.shape)
    (form, vectors, failures), size = (Matrix(buffer, batch) for buffer in call.buffers[-3:]), data.shape[-1]
    iteration, dtype = _Iteration(form, vectors, size), form.dtype
    kind = real_dtype(dtype)
    largest, scale, nothing = Cell("largest", kind), E.Var(kind, 1, "scale"), E.Var(dtype, 1, "nothing")

    def read(row: Expr, column: Expr) -> Stmt:
        element = E.select(column + 1 >= row, data.read((*batch, row, column)), E.const(0, dtype))
        larger = E.binary("max", largest.value, magnitude(form.load(row, column)))
        return seq(form.store(row, column, element), largest.set(larger))

    body = seq(
        largest.start(0.0), iteration.allocate(),
        each_element(size, size, read),
        Let(scale, E.select(largest.value.eq(0.0), E.const(1.0, kind), largest.value)),
        Let(nothing, as_number(scale * 0.0, dtype)),  # NaN where an element is not finite
        form.fill(size, size, lambda i, j: form.load(i, j) / as_number(scale, dtype) + nothing),
        vectors.fill(size, size, lambda i, j: given.read((*batch, i, j)) + nothing),
        iteration.run(),
        form.fill(size, size, lambda i, j: form.load(i, j) * as_number(scale, dtype)),
        failures.store(E.cast(iteration.bottom.value + 1, "int32")),
    )
    return call.function(parallel_nest(loops, body, size * size * size * 10))


def _solved(block: Sequence[Expr], value: E.Var, least: E.Var, first: Expr, second: Expr) -> tuple[Stmt, Expr, Expr]:
    """The solution x, y of ``(block - value) (x, y) = (first, second)`` for the rows of a block, and what binds its parts."""
    a, d, product, determinant, difference = (
        E.Var("complex128", 1, name) for name in ("a", "d", "product", "determinant", "difference"))
    small, (_, right, left, _) = as_number(least, "complex128"), block
    bound = seq(
        Let(a, block[0] - value), Let(d, block[3] - value), Let(product, right * left), Let(difference, a * d - product),
        Let(determinant, E.select(magnitude(difference) < least * least, small * small, difference)))
    return bound, (d * first - right * second) / determinant, (a * second - left * first) / determinant


@kernel("triangular_eigenvectors", complex_numbers=True)
def triangular_eigenvectors(call: KernelCall) -> Function:
    """Family of ``linalg.triangular_eigenvectors``: operands data, values. Substitution from the last row on, for each vector.

    Where elements become huge, the vector is made smaller.
    """
    data, values = call.readers
    loops, batch = batch_loops(data.shape)
    out, size = Matrix(call.buffers[-1], batch), data.shape[-1]
    k, j, i, row, step = (E.var(name) for name in ("k", "j", "i", "row", "step"))
    top, end = E.var("top"), E.var("end")
    least, largest = E.Var("float64", 1, "least"), Cell("largest", "float64")
    totals = [Cell(f"total_{n}", "complex128") for n in range(2)]
    value = E.Var("complex128", 1, "value")

    def at(i: Expr, j: Expr) -> Expr:
        return data.read((*batch, i, j))

    def joined(i: Expr) -> Expr:
        """Whether rows i - 1 and i are a block."""
        inside = (i > 0) & (i < size)
        return inside & at(clamped(i, size), clamped(i - 1, size)).ne(0.0)

    def total(cell: Cell, row: Expr) -> Stmt:
        """The product of a row, from after ``j`` on, with the vector, negated."""
        return seq(cell.set(0.0), loop(i, end - j - 1, cell.set(cell.value - at(row, i) * out.load(i, k)), begin=j + 1))

    difference = E.Var("complex128", 1, "difference")
    small = as_number(least, "complex128")
    first, second = (cell.value for cell in totals)
    single = seq(
        total(totals[0], j),
        Let(difference, at(j, j) - value),
        out.store(j, k, first / E.select(magnitude(difference) < least, small, difference)),
    )
    bound, upper, lower = _solved([at(j - m, j - n) for m in (1, 0) for n in (1, 0)], value, least, first, second)
    block = seq(total(totals[0], j - 1), total(totals[1], j), bound, out.store(j - 1, k, upper), out.store(j, k, lower))
    shrink = loop(i, end, out.store(i, k, out.load(i, k) * (1 / HUGE)))
    huge = E.binary("max", magnitude(out.load(j, k)), magnitude(out.load(E.binary("max", j - 1, E.const(0)), k))) > HUGE
    substitute = seq(
        Let(j, top - 1 - step),
        If(joined(j + 1) & (j + 1 < top), seq(), seq(If(joined(j), block, single), If(huge, shrink))))
    start = E.select(joined(k), at(clamped(k - 1, size), k), at(k, clamped(k + 1, size)))
    pair = seq(out.store(top, k, start), out.store(top + 1, k, value - at(top, top)))
    vector = seq(
        Let(value, values.read((*batch, k))),
        Let(top, E.select(joined(k), k - 1, k)),
        Let(end, E.select(joined(k + 1), k + 2, k + 1)),
        loop(row, size, out.store(row, k, E.const(0, "complex128"))),
        If((end - top) > 1, pair, out.store(k, k, E.const(1, "complex128"))),
        loop(step, top, substitute),
    )
    body = seq(
        largest.start(0.0), *(cell.allocate() for cell in totals),
        loop(row, size, loop(j, size, largest.set(E.binary("max", largest.value, magnitude(at(row, j)))))),
        Let(least, E.binary("max", largest.value * EPSILON, E.const(float(np.finfo(np.float64).tiny), "float64"))),
        loop(k, size, vector),
    )
    return call.function(parallel_nest(loops, body, size * size * size))
