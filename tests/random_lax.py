"""Random programs of jax: step by step, each evaluated at once by jax, which so decides what is valid.

Every value that is a result may be an output, so that each step is judged by itself (``tests.error_model``). In symbolic programs
the first sizes of inputs are symbols, and each step has to be one that jax can trace for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import export
from jax import numpy as jnp

Array = Any  # of jax, or of NumPy
EXTENTS = (1, 2, 2, 3, 3, 4, 4, 5, 7)
REAL = ("float32", "float32", "float32", "float16", "bfloat16")
INTEGERS = ("int32", "int32", "int8", "int16", "uint8", "uint16", "uint32")
WIDE = ("float64", "int64", "uint64", "complex128")
"""Element types of the programs that have wide ones."""
OTHERS = ("bool", "complex64")
LARGEST_SIZE, LARGEST_RANK, LARGEST_VALUE = 2000, 6, 64.0
SMALLEST_VALUE = 1e-30
"""XLA takes denormal numbers for 0."""
SYMBOLIC = 0.3
"""Share of the programs with symbolic sizes."""
WIDE_TYPES = 0.3
"""Share of the programs with the types of 64 bits."""
OF_SIGNS = ("atan2", "arctan2", "bitcast", "copysign", "div", "nextafter", "signbit")
"""Steps that tell -0 from 0."""


class Unfit(Exception):
    """A step found no operands, or jax takes no such step."""


@dataclass(frozen=True)
class Step:
    """What a program does with earlier values."""

    name: str
    function: Callable[..., Any]
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Program:
    """A function under construction, with the contents and the types of its values, which are numbers.

    Attributes:
        varying: values that depend on contents of inputs; others are computed when a program is loaded.
        shown: values that have to be outputs, because what reads them sees the sign of zero.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.has_wide_types = bool(self.rng.random() < WIDE_TYPES)
        self.scope = export.SymbolicScope() if self.rng.random() < SYMBOLIC else None
        self.arrays: list[Array] = []
        self.types: list[Any] = []
        self.inputs: list[int] = []
        self.steps: list[Step] = []
        self.varying: set[int] = set()
        self.shown: set[int] = set()
        self.outputs: list[int] = []

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.steps]

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def flag(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def number(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included.

        Raises:
            Unfit: there is none.
        """
        if low > high:
            raise Unfit
        return int(self.rng.integers(low, high + 1))

    def some(self, count: int, least: int = 0, most: int | None = None) -> tuple[int, ...]:
        """A few of 0, 1, .. count - 1, in any order.

        Raises:
            Unfit: there are too few.
        """
        most = count if most is None else min(most, count)
        if least > most:
            raise Unfit
        return tuple(int(k) for k in self.rng.permutation(count)[: self.number(least, most)])

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        return tuple(self.pick(*EXTENTS) for _ in range(self.number(least, most)))

    def dtype(self) -> str:
        kinds = (*REAL, *REAL, *INTEGERS, *OTHERS, *(WIDE * 2 if self.has_wide_types else ()))
        return str(self.pick(*kinds))

    def contents(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        kind = np.dtype(jnp.dtype(dtype)).kind
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind in "iu":
            return np.asarray(self.rng.integers(0 if kind == "u" else -9, 12, shape)).astype(dtype)
        numbers = self.rng.standard_normal(shape) * self.pick(1, 1, 3)
        if kind == "c":
            numbers = numbers + 1j * self.rng.standard_normal(shape)
        return np.asarray(numbers).astype(jnp.dtype(dtype))

    def input(self, shape: Sequence[int], dtype: str, array: Any = None) -> int:
        """A new input; a symbol's name tells its size, so that equal names have equal sizes."""
        array = self.contents(shape, dtype) if array is None else np.asarray(array, jnp.dtype(dtype))
        sizes = [str(size) for size in array.shape]
        if self.scope is not None and array.ndim and array.shape[0] > 1 and self.flag(0.7):
            sizes[0] = f"s{sizes[0]}"
        is_symbolic = self.scope is not None and any(size.startswith("s") for size in sizes)
        shape = export.symbolic_shape(", ".join(sizes), scope=self.scope) if is_symbolic else array.shape
        self.inputs.append(self._value(jnp.asarray(array), jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))))
        self.varying.add(self.inputs[-1])
        return self.inputs[-1]

    def operand(self, shape: Sequence[int], dtype: str, array: Any = None) -> int:
        """An input with contents of its own, or a constant."""
        if self.flag():
            return self.input(shape, dtype, array)
        array = self.contents(shape, dtype) if array is None else np.asarray(array, jnp.dtype(dtype))
        return self.add("constant", lambda: jnp.asarray(array))[0]

    def _value(self, array: Array, type_: Any) -> int:
        self.arrays.append(array)
        self.types.append(type_)
        return len(self.arrays) - 1

    def value(self, accept: Callable[[Array], bool] = lambda _: True) -> int:
        """One of the latest values that fit.

        Raises:
            Unfit: there is none.
        """
        fitting = [k for k, array in enumerate(self.arrays) if k in self.varying and self._is_bounded(array) and accept(array)]
        if not fitting:
            raise Unfit
        return int(self.pick(*fitting[-8:]))

    def real(self, least: int = 0, most: int = LARGEST_RANK) -> int:
        """A value of real numbers, of a rank from ``least`` to ``most``."""
        return self.value(lambda a: jnp.issubdtype(a.dtype, jnp.floating) and least <= a.ndim <= most)

    def any_value(self, least: int = 0, most: int = LARGEST_RANK) -> int:
        return self.value(lambda a: least <= a.ndim <= most)

    def partner(self, value: int) -> int:
        """A value of the same type and sizes; if there is none, maybe a new one."""
        array = self.arrays[value]
        with contextlib.suppress(Unfit):
            if self.flag(0.7):
                return self.value(lambda a: a.dtype == array.dtype and a.shape == array.shape)
        return self.operand(array.shape, str(array.dtype))

    def _is_bounded(self, array: Array) -> bool:
        if array.dtype.kind in "biu":
            return True
        wide = np.abs(np.asarray(array).astype(np.complex128 if array.dtype.kind == "c" else np.float64))
        return bool(np.all((wide <= LARGEST_VALUE) & ((wide == 0) | (wide >= SMALLEST_VALUE))))

    def add(self, name: str, function: Callable[..., Any], *operands: int) -> tuple[int, ...]:
        """The numbers of the results of a step.

        Raises:
            Unfit: jax refuses it, a result is too large, or all of them are constants.
        """
        if operands and self.varying.isdisjoint(operands):
            raise Unfit
        try:
            types = jax.tree.leaves(jax.eval_shape(function, *(self.types[k] for k in operands)))
            arrays = jax.tree.leaves(function(*(self.arrays[k] for k in operands)))
        except Exception as error:  # of many kinds: of shapes, of types, of symbols, of what is not implemented
            raise Unfit(f"{name}: {error}") from error
        if any(a.size > LARGEST_SIZE or a.ndim > LARGEST_RANK or a.dtype.kind not in "biufcV" for a in arrays):
            raise Unfit
        results = tuple(self._value(array, type_) for array, type_ in zip(arrays, types, strict=True))
        self.steps.append(Step(name, function, operands, results))
        self.varying.update(results if operands and name != "iota" else ())
        self.shown.update(operands if name in OF_SIGNS else ())
        return results

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        values: dict[int, Array] = dict(zip(self.inputs, inputs, strict=True))
        for step in self.steps:
            found = jax.tree.leaves(step.function(*(values[k] for k in step.operands)))
            values.update(zip(step.results, found, strict=True))
        return tuple(values[k] for k in self.outputs)

    def finish(self) -> None:
        """Chooses the outputs; results that other steps read may stay inside."""
        read = {k for step in self.steps for k in step.operands}
        results = [k for step in self.steps if step.name != "constant" for k in step.results]
        self.outputs = [k for k in results if k not in read or k in self.shown or self.flag(0.85)]


def random_program(seed: int, most: int = 12, steps: Sequence[Callable[[Program], None]] = ()) -> Program:
    """The program of a seed: 1 to ``most`` steps, made by ``steps`` or, if there are none, by all kinds of them."""
    from tests.random_lax_steps import STEPS

    program = Program(seed)
    with jax.enable_x64(program.has_wide_types):
        for _ in range(program.number(1, 3)):
            program.input(program.shape(), program.dtype())
        program.input(program.shape(1, 4), "float32")
        wanted = program.number(1, most)
        for _ in range(5 * wanted):
            before = len(program.steps)
            with contextlib.suppress(Unfit):
                program.pick(*(steps or STEPS))(program)
            if len(program.steps) > before and sum(name != "constant" for name in program.names) >= wanted:
                break
        program.finish()
    return program
