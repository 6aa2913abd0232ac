"""Builds programs statement by statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from forge.errors import OptionError
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir.expr import Expr, ExprLike, Tensor, Var
from forge.tir.stmt import Stmt
from forge.tir.text.programs import Program, read_program
from forge.tir.text.source import DTYPES
from forge.tir.text.syntax import Declare, Write


class Builder:
    """A program in the making. Buffers are read as ``A[i, j]``, which has Python's operators; ``forge.te`` has the functions.

    >>> from forge import tir
    >>> b = tir.Builder("scale")
    >>> A = b.buffer("A", ("n", "m"), "float32")
    >>> B = b.buffer("B", ("n", "m"), "float32")
    >>> with b.grid(*A.shape) as (i, j):
    ...     b.store(B, (i, j), A[i, j] * 2.0)
    >>> print(b.program())
    def scale(A: Buffer[(n, m), "float32"], B: Buffer[(n, m), "float32"]):
        for i in range(n):
            for j in range(m):
                B[i, j] = A[i, j] * 2.0
    <BLANKLINE>
    """

    def __init__(self, name: str) -> None:
        if not name.isidentifier():
            raise OptionError(f"tir.Builder: name: got {name!r}; expected an identifier")
        self.name = name
        self._order: list[Tensor | Var] = []
        self._sizes: dict[str, Var] = {}
        self._blocks: list[list[Stmt]] = [[]]

    def buffer(self, name: str, shape: Sequence[int | str | Expr], dtype: str) -> Tensor:
        """One more parameter; texts in its shape are names of sizes."""
        extents = tuple(self.size(e) if isinstance(e, str) else E.as_expr(e) for e in shape)
        self._order.append(Tensor(name, extents, _known(dtype)))
        return self._order[-1]  # type: ignore[return-value]

    def number(self, name: str) -> Var:
        """One more parameter: an int64 that is given with each use."""
        self._order.append(E.var(name))
        return self._order[-1]  # type: ignore[return-value]

    def size(self, name: str) -> Var:
        """The size of this name, which stands alone in the shape of a buffer."""
        return self._sizes.setdefault(name, E.var(name))

    def local(self, shape: Sequence[int], dtype: str, name: str = "local_memory") -> Tensor:
        """Memory of its own, for the rest of what is open."""
        tensor = Tensor(name, tuple(map(E.as_expr, shape)), _known(dtype))
        self._add(Declare(tensor))
        return tensor

    def let(self, value: Expr, name: str = "value") -> Var:
        """A name for ``value``, which is computed here."""
        variable = E.var(name, value.dtype)
        self._add(S.Let(variable, value))
        return variable

    def store(self, tensor: Tensor, indices: ExprLike | Sequence[ExprLike], value: ExprLike) -> None:
        """``tensor[indices] = value``; a number takes the type of the tensor."""
        items: Sequence[ExprLike] = (indices,) if isinstance(indices, Expr | int) else indices  # type: ignore[assignment]
        if len(items) != tensor.ndim:
            raise OptionError(f"tir.Builder: store: {tensor.name}: got {len(items)} indices; expected {tensor.ndim}")
        stored = E.as_expr(value, tensor.dtype)
        if stored.dtype != tensor.dtype:
            expected = f"expected {tensor.dtype} of {tensor.name}; convert it with te.cast"
            raise OptionError(f"tir.Builder: store: got {stored.dtype}; {expected}")
        self._add(Write(tensor, tuple(map(E.as_expr, items)), stored))

    @contextmanager
    def range(self, extent: ExprLike, begin: ExprLike = 0, name: str = "i", kind: str = "serial") -> Iterator[Var]:
        """A loop from ``begin`` to before ``extent``."""
        variable, first = E.var(name), E.as_expr(begin)
        with self._block() as body:
            yield variable
        self._add(S.For(variable, first, E.as_expr(extent) - first, S.seq(*body), kind))

    def parallel(self, extent: ExprLike, name: str = "i") -> AbstractContextManager[Var]:
        """A loop whose iterations are independent, on several threads."""
        return self.range(extent, name=name, kind="parallel")

    def vectorized(self, extent: int, name: str = "i") -> AbstractContextManager[Var]:
        """A loop whose iterations are independent, as one vector."""
        return self.range(extent, name=name, kind="vectorized")

    def unrolled(self, extent: int, name: str = "i") -> AbstractContextManager[Var]:
        """A loop that is written out."""
        return self.range(extent, name=name, kind="unrolled")

    @contextmanager
    def grid(self, *extents: ExprLike) -> Iterator[tuple[Var, ...]]:
        """Loops inside each other."""
        names = "ijkl" if len(extents) <= 4 else [f"i{k}" for k in range(len(extents))]
        variables = tuple(E.var(name) for name, _ in zip(names, extents))
        with self._block() as body:
            yield variables
        nest = S.seq(*body)
        for variable, extent in reversed(list(zip(variables, extents))):
            nest = S.For(variable, E.const(0), E.as_expr(extent), nest)
        self._add(nest)

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """What runs where ``condition`` holds."""
        with self._block() as body:
            yield
        self._add(S.If(condition, S.seq(*body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What runs where the condition of `when` just before does not hold."""
        last = self._blocks[-1].pop() if self._blocks[-1] else None
        if not isinstance(last, S.If) or last.otherwise is not None:
            raise OptionError("tir.Builder: otherwise: expected it directly after a block of when")
        with self._block() as body:
            yield
        self._add(S.If(last.condition, last.then, S.seq(*body)))

    def program(self) -> Program:
        """What has been built.

        Raises:
            OptionError: something of it has no text.
            ParseError: its text is not a program: an index out of bounds, say.
        """
        order = tuple(self._order)
        buffers = tuple(p for p in order if isinstance(p, Tensor))
        scalars = tuple(p for p in order if isinstance(p, Var))
        made = Program(self.name, buffers, scalars, tuple(self._sizes.values()), S.seq(*self._blocks[0]), order)
        return read_program(made.text)

    def _add(self, s: Stmt) -> None:
        self._blocks[-1].append(s)

    @contextmanager
    def _block(self) -> Iterator[list[Stmt]]:
        self._blocks.append([])
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()


def _known(dtype: str) -> str:
    if dtype not in DTYPES:
        raise OptionError(f"tir.Builder: dtype: got {dtype!r}; expected one of {', '.join(DTYPES)}")
    return dtype
