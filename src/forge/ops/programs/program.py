"""Loop programs as operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core.composer import Composer
from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Tensor, TensorTypes, Types, Value
from forge.ops.programs.binding import KernelAttrs, Sizes, check_limits, checked_sizes, conditions, shape_of, sizes_of
from forge.tir.text import Program, read_program
from forge.tir.text.running import run


@dataclass(frozen=True)
class ProgramAttrs(KernelAttrs):
    """``shapes``: of the results, where the text does not say them; ``in_place``: whose place each result takes (-1: none's)."""

    shapes: tuple[tuple[Dim, ...], ...] | None = None
    in_place: tuple[int, ...] = ()


@register
class TensorProgram(Op[ProgramAttrs]):
    """``results = program(*operands)``: loops over the operands' elements that run as they are written.

    The first parameters of ``program`` (see ``forge.tir.text``) are the operands, the others results, which begin as zeros. With
    ``in_place``, result i is operand ``in_place[i]`` as the program leaves it; -1: the next of those other parameters. The
    operands themselves never change: where one is used later, the program works on a copy. ``sizes`` are the program's numbers.
    """

    name = "tensor_program"
    operands = (Operand("operands", variadic=True),)
    kind = Kind.OPAQUE
    accuracy = Accuracy.ACCUMULATING
    kernel = "tensor_program"

    def infer(self, attrs: ProgramAttrs, *operands: Value) -> Types:
        program, types = read_program(attrs.program), [v.tensor_type for v in operands]
        places = self._places(program, attrs, len(types))
        sizes = checked_sizes(self.name, program, attrs.sizes, types)
        results = [program.parameters[k] for k in places]
        if attrs.shapes is not None:
            sizes = self._with_shapes(program, attrs, results, sizes)
        missing = [v.name for v in program.sizes if v not in sizes]
        if missing:
            got = f"no value for {', '.join(missing)}"
            raise fail(self.name, f"{program.name}: sizes of results", got, "shapes=(...) of the results")
        return [TensorType(shape_of(self.name, program, p, sizes), p.dtype) for p in results]

    def _places(self, program: Program, attrs: ProgramAttrs, count: int) -> list[int]:
        """The parameter that each result is."""
        others = len(program.parameters) - count
        in_place = attrs.in_place or (-1,) * others
        given = [k for k in in_place if k != -1]
        what = f"{program.name}: operands and results"
        if others < 0 or in_place.count(-1) != others or not in_place:
            got = f"{count} operands and in_place={attrs.in_place}"
            raise fail(self.name, what, got, f"{len(program.parameters)} buffers, of which some are results")
        if len(set(given)) != len(given) or not all(0 <= k < count for k in given):
            raise fail(self.name, f"{program.name}: in_place", attrs.in_place, f"-1 and different numbers of {count} operands")
        for k in range(count):
            if program.written[k] and k not in given:
                raise fail(self.name, f"{program.name}: parameter {program.parameters[k].name!r}", "an operand that is written",
                           f"{k} among in_place, or a result in its place")
        new = iter(range(count, len(program.parameters)))
        return [next(new) if k == -1 else k for k in in_place]

    def _with_shapes(self, program: Program, attrs: ProgramAttrs, results: Sequence[Tensor], sizes: Sizes) -> Sizes:
        """``sizes``, and those that shapes of results give."""
        shapes = attrs.shapes or ()
        if [len(s) for s in shapes] != [p.ndim for p in results]:
            raise fail(self.name, f"{program.name}: shapes", shapes, f"shapes of ranks {[p.ndim for p in results]}")
        types = [TensorType(s, p.dtype) for s, p in zip(shapes, results)]
        made = Program(program.name, tuple(results), (), program.sizes, program.body, tuple(results))
        found = {**sizes_of(made, (), [te.shape_of(t.shape) for t in types]), **sizes}
        for parameter, type_ in zip(results, types):
            for axis, (wanted, size) in enumerate(zip(shape_of(self.name, program, parameter, found), type_.shape)):
                unify_dim(self.name, wanted, size, f"{program.name}: axis {axis} of {parameter.name!r}")
        check_limits(self.name, program, found)
        return found

    def reference(self, attrs: ProgramAttrs, *operands: Array) -> Arrays:
        program = read_program(attrs.program)
        places = self._places(program, attrs, len(operands))
        results = [program.parameters[k] for k in places]
        shapes: list[Sequence[int]] = [x.shape for x in operands]
        sizes = sizes_of(program, attrs.sizes, [te.shape_of(s) for s in shapes])
        if attrs.shapes is not None:
            sizes = self._with_shapes(program, attrs, results, sizes)
        arrays = [np.array(x) if k in places else x for k, x in enumerate(operands)]
        fresh = program.parameters[len(operands) :]
        arrays += [np.zeros(shape_of(self.name, program, p, sizes), dtypes.numpy_dtype(p.dtype)) for p in fresh]  # type: ignore[arg-type]
        run(program, arrays, sizes)
        return [arrays[k] for k in places]

    def requires(self, attrs: ProgramAttrs, results: TensorTypes, *operands: TensorType) -> Conditions:
        program = read_program(attrs.program)
        shapes = [te.shape_of(t.shape) for t in operands]
        in_place = attrs.in_place or (-1,) * len(results)
        shapes += [te.shape_of(t.shape) for t, k in zip(results, in_place) if k == -1]
        return conditions(program, sizes_of(program, attrs.sizes, shapes))

    def is_update(self, attrs: ProgramAttrs, rank: int) -> bool:
        return attrs.in_place == (0,)


def apply_program(
    g: Composer, program: Program | str, operands: Sequence[Value], *, sizes: Sequence[Dim] = (),
    shapes: Sequence[Sequence[Dim]] | None = None, in_place: Sequence[int] = (),
) -> list[Value]:
    """Adds a program to a graph: its results.

    Args:
        g: what builds the graph.
        program: it, or its text.
        operands: its first buffers.
        sizes: its numbers, in order.
        shapes: of the results; None: as the text says.
        in_place: for each result, the operand that it takes the place of; -1: it is the next one of the other buffers. Empty: all
            other buffers are the results.

    Raises:
        TypeInferenceError: operands, numbers or shapes do not fit the program.
        ParseError: the text is not a program.
    """
    text = program.text if isinstance(program, Program) else read_program(program).text
    given = None if shapes is None else tuple(map(tuple, shapes))
    return g.multi(
        "tensor_program", *operands, program=text, sizes=tuple(sizes), shapes=given, in_place=tuple(in_place))
