"""Own kernels as text: a subset of Python for loop programs and tensor expressions, read by the syntax tree, never run.

A program is a function over buffers. It says what happens, in which order::

    def scale(A: Buffer[(n, m), "float32"], B: Buffer[(n, m), "float32"], k: int64):
        for i in parallel(n):
            for j in range(m):
                if j < k:
                    B[i, j] = A[i, j] * 2.0
                else:
                    B[i, j] = exp(A[i, j])

An expression is a function over tensors. It says what each element is, and leaves the loops to Forge::

    def dense(A: Tensor[(n, k), "float32"], W: Tensor[(k, m), "float32"]):
        r = reduce_axis(k)
        C = compute((n, m), lambda i, j: sum(A[i, r] * W[r, j], axis=r))
        return C

Parameters
    ``Buffer[shape, dtype]`` and ``Tensor[shape, dtype]``; element types are bool, integers of 8 to 64 bits and floats of 16 to
    64. A shape has numbers, names of sizes, and ``+ - * // % min max`` of them; a name that stands alone in a shape is bound by
    the size that is given there. ``k: int64`` is a number that is given with each use. Names of sizes may be texts
    (``("n", "m")``), so that Python can evaluate the annotation, and those of types may be names.

Statements of programs
    ``for i in range(n)``, ``range(a, b)``; ``for i, j in grid(n, m)``; ``parallel``, ``vectorized`` and ``unrolled`` in place of
    range: iterations of the first two must be independent (none writes or reads what another one writes), the latter two have
    constant extents, and a vectorized loop with variables, local memory or a branch inside may run as a range. ``if``, ``elif``,
    ``else``, ``pass``; ``B[i, j] = x`` and ``B[i, j] += x``; ``x = value`` names a value for the rest of the block, and a name
    that is assigned again becomes a variable of one element; ``t = local((4, 4), "float32")`` is memory of its own.

Values
    Numbers, ``True``, ``False``, ``inf``, ``nan``, names, ``A[i, j]``; ``+ - * / // % ** << >> & | ^ ~``, comparisons, also
    chained, ``and or not``, ``a if c else b`` (both sides are computed); ``min max abs select(c, a, b) truncdiv truncmod``;
    ``float32(x)`` and its kin convert; the intrinsics of ``forge.tir.expr`` that work element by element, by name. Numbers take
    the type of what they are combined with; alone, they are int64, float32 and bool. Values of different types are not combined
    without a conversion. ``/`` is for floats, ``//`` and ``%`` for integers.

Statements of expressions
    ``r = reduce_axis(n)``; ``C = compute(shape, lambda i, j: value)``, where the value may be one of ``sum prod max min all any``
    of a value, with ``axis=r`` or ``axis=(r, s)``; ``return C`` or ``return C, D``, once, at the end.

TVM's spellings of these are read too: ``T.`` and ``te.`` in front of names, ``T.Buffer((n, m), "float32")``, ``serial``,
``unroll``, ``alloc_buffer``, ``if_then_else``, ``Cast``. Not supported are blocks (``T.block``), ``match_buffer``, ``while``,
steps of ranges, and calls of other functions.

Nothing leaves its memory: an index that is not provably in bounds is moved into them where it is read, and a store outside does
nothing; one that is out of bounds wherever it stands is refused. New results and local memory begin as zeros where a program
does not write them first. Sizes are at most ``MAX_SIZE``.
"""

from forge.tir.text.builder import Builder
from forge.tir.text.decorator import Buffer, program
from forge.tir.text.expressions import Expression, expression_of, read_expression
from forge.tir.text.programs import Program, read_program

__all__ = ["Buffer", "Builder", "Expression", "Program", "expression_of", "program", "read_expression", "read_program"]
