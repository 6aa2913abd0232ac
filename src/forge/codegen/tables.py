"""The constants that describe a library: ``forge_model`` and what it points to."""

from __future__ import annotations

from collections.abc import Sequence

from forge.codegen import abi
from forge.codegen.llvm import c_string
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir.library import Library, Program, StateMemory, StateSpec, TensorSpec

MODEL_SYMBOL = "forge_model_data"

_SPEC_TYPE = f"{{ ptr, i32, i32, [{abi.MAX_RANK} x {{ i64, i64 }}], ptr }}"
_STATE_TYPE = f"{{ ptr, i32, i32, [{abi.MAX_RANK} x i64], [{abi.MAX_RANK} x i64], [{abi.MAX_RANK} x i32], i64 }}"


REGION_FIELDS = (*["ptr null"] * 6, *["i32 0"] * 4)
"""Of ``forge_model``, since version 4: a region is not a function of a library."""


class Strings:
    def __init__(self) -> None:
        self.definitions: list[str] = []

    def pointer(self, value: str) -> str:
        """A pointer to ``value`` as a C string."""
        symbol = f"@forge_string{len(self.definitions)}"
        self.definitions.append(c_string(symbol, value, "private unnamed_addr constant"))
        return f"ptr {symbol}"


class LibraryTables:
    """The constants that all functions of a library share."""

    def __init__(self, library: Library, strings: Strings) -> None:
        self.library = library
        self.strings = strings

    def fields(self, program: Program, suffix: str) -> list[str]:
        """The last fields of the ``forge_model`` of a function: what it is in the library."""
        library = self.library
        pointers = [("functions", library.programs), ("states", library.states), (f"bindings{suffix}", program.bindings),
                    (f"donated{suffix}", program.donated), ("registered", library.registered)]
        counts = [len(items) for items in (library.programs, library.states, program.bindings, library.registered)]
        return [self.strings.pointer(program.function),
                *[f"ptr @forge_{name}" if items else "ptr null" for name, items in pointers], *[f"i32 {n}" for n in counts]]

    def definitions(self, models: Sequence[str]) -> str:
        """Of the tables of functions, whose symbols are ``models``, states and registered names."""
        library = self.library
        states = [f"{_STATE_TYPE} {self._state(state)}" for state in library.states]
        return "\n".join([
            _array("@forge_functions", "ptr", [f"ptr {model}" for model in models]),
            _array("@forge_states", _STATE_TYPE, states),
            _array("@forge_registered", "ptr", [self.strings.pointer(name) for name in library.registered]),
        ])

    def _state(self, state: StateSpec) -> str:
        where = f"codegen: state {state.name!r}"
        if state.dtype not in abi.DTYPE_CODES or len(state.dims) > abi.MAX_RANK:
            raise CompileError(f"{where} of {state.dtype} has rank {len(state.dims)}; expected at most {abi.MAX_RANK}, of one of "
                               f"{', '.join(abi.DTYPE_CODES)}")
        dims = [-1 if d is None else d for d in state.dims]
        values = [_numbers("i64", dims), _numbers("i64", state.initial_shape), _numbers("i32", state.axes)]
        initial = -1 if state.initial is None else state.initial
        return (f"{{ {self.strings.pointer(state.name)}, i32 {abi.DTYPE_CODES[state.dtype]}, i32 {len(dims)}, "
                f"{', '.join(values)}, i64 {initial} }}")


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def _array(symbol: str, element: str, items: Sequence[str]) -> str:
    return f"{symbol} = internal constant [{len(items)} x {element}] [{', '.join(items)}]"


def _numbers(element: str, values: Sequence[int]) -> str:
    """An array of the highest rank, zeros after ``values``."""
    padded = [*values, *[0] * (abi.MAX_RANK - len(values))]
    return f"[{abi.MAX_RANK} x {element}] [{', '.join(f'{element} {value}' for value in padded)}]"


class ProgramTables:
    """The constants that describe a program; their symbols end in ``suffix``.

    ``expressions`` are the dimensions that are neither constants nor symbols; equal objects once.
    """

    def __init__(self, program: Program, suffix: str, strings: Strings) -> None:
        self.program = program
        self.suffix = suffix
        self.strings = strings
        dims = (dim for spec in (*program.inputs, *program.outputs) for dim in spec.dims)
        self.expressions = list(dict.fromkeys(d for d in dims if not isinstance(d, tir.Const) and d not in program.symbols))

    def definition(self, weights: str, weights_size: int, library: Sequence[str]) -> str:
        """The ``forge_model``, after what it points to; ``library`` has its last fields."""
        program, suffix, pointer = self.program, self.suffix, self.strings.pointer
        names = [pointer(v.name) for v in program.symbols]
        lines = [_array(f"@forge_symbol_names{suffix}", "ptr", names), *self._states()]
        lines += [self._spec_table(f"@forge_{kind}_specs{suffix}", specs)
                  for kind, specs in (("input", program.inputs), ("output", program.outputs))]
        counts = (abi.ABI_VERSION, len(program.inputs), len(program.outputs), len(program.symbols), len(self.expressions), 0)
        fields = [*(f"i32 {count}" for count in counts), pointer(program.name), pointer(",".join(program.cpu_features)),
                  f"ptr @forge_symbol_names{suffix}", f"ptr @forge_input_specs{suffix}", f"ptr @forge_output_specs{suffix}",
                  weights, f"i64 {weights_size}", f"ptr @forge_arena_size{suffix}",
                  f"ptr @forge_dims{suffix}" if self.expressions else "ptr null", f"ptr @forge_entry{suffix}",
                  *library]
        types = ", ".join(field.split(" ", 1)[0] for field in fields)
        lines.append(f"@{MODEL_SYMBOL}{suffix} = hidden constant {{ {types} }} {{ {', '.join(fields)} }}, align 8")
        return "\n\n".join(lines)

    def _states(self) -> list[str]:
        """The tables of bound states and of donated inputs."""
        program, lines = self.program, list[str]()
        donated = [*program.donated, *[None] * (len(program.outputs) - len(program.donated))]
        for b in program.bindings:
            if b.memory is not StateMemory.REPLACED and (b.input is None or b.output is None):
                what = f"codegen: {program.name}: state number {b.state}: {b.memory.name}"
                raise CompileError(f"{what}; got input {b.input} and output {b.output}; expected both, which share their memory")
        if program.bindings:
            rows = [(b.state, _or_none(b.input), _or_none(b.output), int(b.memory)) for b in program.bindings]
            values = [f"[4 x i32] [{', '.join(f'i32 {n}' for n in row)}]" for row in rows]
            lines.append(_array(f"@forge_bindings{self.suffix}", "[4 x i32]", values))
        if program.donated:
            lines.append(_array(f"@forge_donated{self.suffix}", "i32", [f"i32 {_or_none(n)}" for n in donated]))
        return lines

    def _spec_table(self, symbol: str, specs: Sequence[TensorSpec]) -> str:
        lines: list[str] = []
        rows = [f"{_SPEC_TYPE} {self._spec(spec, f'{symbol}.{k}', lines)}" for k, spec in enumerate(specs)]
        return "\n".join([*lines, _array(symbol, _SPEC_TYPE, rows)])

    def _spec(self, spec: TensorSpec, symbol: str, lines: list[str]) -> str:
        """The initializer of a spec; ``lines`` gets the definition of what its elements are, called after ``symbol``."""
        where = f"codegen: {self.program.name}: tensor {spec.name!r}"
        if spec.dtype not in abi.DTYPE_CODES:
            raise CompileError(f"{where} of {spec.dtype}; expected one of {', '.join(abi.DTYPE_CODES)}")
        if len(spec.dims) > abi.MAX_RANK:
            raise CompileError(f"{where} has rank {len(spec.dims)}; expected at most {abi.MAX_RANK}")
        dims = [*map(self._dim, spec.dims), *[(0, 0)] * (abi.MAX_RANK - len(spec.dims))]
        pairs = ", ".join(f"{{ i64, i64 }} {{ i64 {size}, i64 {number} }}" for size, number in dims)
        rank = len(spec.dims) if spec.has_rank else -1
        element = "null"
        if spec.element is not None:
            element = f"{symbol}.element"
            lines.append(f"{element} = internal constant {_SPEC_TYPE} {self._spec(spec.element, element, lines)}")
        name, code = self.strings.pointer(spec.name), abi.DTYPE_CODES[spec.dtype]
        return f"{{ {name}, i32 {code}, i32 {rank}, [{abi.MAX_RANK} x {{ i64, i64 }}] [{pairs}], ptr {element} }}"

    def _dim(self, dim: tir.Expr) -> tuple[int, int]:
        """``forge_dim``: the size; -1 and a symbol's number; or -2 and an expression's number."""
        if isinstance(dim, tir.Const) and isinstance(dim.value, int):
            return dim.value, 0
        if isinstance(dim, tir.Var) and dim in self.program.symbols:
            return -1, self.program.symbols.index(dim)
        return -2, self.expressions.index(dim)
