"""Iterations of a loop that stands for two or more, row by row.

``for p in first .. end: let j = p % n; let i = p // n; body``  -->  ``for i in first // n .. ceil(end / n): for j in
max(0, first - i * n) .. min(n, end - i * n): body``. So what a row has in common is computed once, and addresses are counted on.
"""

from __future__ import annotations

from forge.tir.expr import Binary, Expr, Load, Var, binary, var
from forge.tir.rewrite import Rewriter
from forge.tir.stmt import For, Let, Seq, Stmt, loop, seq
from forge.tir.visit import free_names, free_variables, nodes


def iterations(s: For, first: Var, end: Var) -> Stmt:
    """Iterations ``first`` to ``end`` of ``s``, in their order."""
    body = list(s.body.body) if isinstance(s.body, Seq) else [s.body]
    fast, row, slow = body.pop(0), var("row"), list[Stmt]()
    size = _row_size(fast, s.var)
    if not isinstance(fast, Let) or size is None:
        return loop(s.var, end - first, s.body, begin=first)

    def number_of_row(x: Expr) -> Expr | None:
        return row if isinstance(x, Binary) and x.op == "floordiv" and x.a is s.var and x.b is size else None

    while body and isinstance(let := body[0], Let) and _is_of_row(value := Rewriter(number_of_row)(let.value), row, fast.var):
        slow.append(Let(let.var, value))
        del body[0]
    inner = seq(*body)
    if s.var in free_names(inner)[0]:
        return loop(s.var, end - first, s.body, begin=first)
    begin = binary("max", first - row * size, 0)
    inner = loop(fast.var, binary("min", end - row * size, size) - begin, inner, begin=begin)
    return loop(row, (end + size - 1) // size - first // size, seq(*slow, inner), begin=first // size)


def _row_size(s: Stmt, number: Var) -> Expr | None:
    """``n`` where ``s`` binds ``number % n``."""
    value = s.value if isinstance(s, Let) else None
    return value.b if isinstance(value, Binary) and value.op == "floormod" and value.a is number else None


def _is_of_row(value: Expr, row: Var, fast: Var) -> bool:
    """Whether ``value`` is the same all along a row."""
    used = free_variables(value)
    return row in used and fast not in used and not any(isinstance(x, Load) for x in nodes(value))
