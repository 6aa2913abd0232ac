"""A library of programs: kernels and the entries that call them. What lowering hands to code generation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from forge.tir.expr import Expr, Var
from forge.tir.stmt import Function, Let, Stmt


@dataclass(frozen=True)
class TensorSpec:
    """An input or output; each dimension is a constant, one of the program's symbols, or an expression over them.

    Sequences and optionals have an ``element``, whose dimensions are constants; -1: any size.
    """

    name: str
    dtype: str
    dims: tuple[Expr, ...]
    element: TensorSpec | None = None
    has_rank: bool = True


@dataclass(frozen=True)
class StateSpec:
    """A tensor that a session keeps from one call to the next; shapes are logical ones.

    Attributes:
        dims: None: any size.
        axes: stored axis k is logical axis ``axes[k]``. Inputs and outputs that are this state have their axes in stored order.
        initial: the offset of the first value in the weights, in stored order; None: it is zeros.
        initial_shape: of the first value, where there is one.
    """

    name: str
    dtype: str
    dims: tuple[int | None, ...]
    axes: tuple[int, ...]
    initial: int | None = None
    initial_shape: tuple[int, ...] = ()


class StateMemory(IntEnum):
    """``forge_state_memory``: how an output becomes the new value of a state."""

    REPLACED = 0  # in memory of its own; other states and inputs are as before if the call fails
    IN_PLACE = 1  # written over the input: they have one address
    APPENDED = 2  # has the address of the input, whose elements it begins with and leaves as they are


@dataclass(frozen=True)
class Binding:
    """A state that a function reads or replaces: by numbers of the state, of the input and of the output that it is."""

    state: int
    input: int | None
    output: int | None
    memory: StateMemory = StateMemory.REPLACED


@dataclass(frozen=True)
class Program:
    """A function. ``entry`` holds CallKernel, Let and If over ``symbols`` (bound from the inputs' dimensions).

    ``donated`` has for each output the input whose memory it takes (None: none), and is empty where no output takes any.
    """

    name: str
    functions: tuple[Function, ...]
    entry: Stmt
    arena_size: Expr  # bytes, over ``symbols`` and what ``arena_bindings`` bind
    symbols: tuple[Var, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights_size: int  # bytes
    cpu_features: tuple[str, ...]  # that the code may use
    controls: tuple[Control, ...] = ()
    function: str = "main"
    bindings: tuple[Binding, ...] = ()
    donated: tuple[int | None, ...] = ()
    arena_bindings: tuple[Let, ...] = ()

    @property
    def registered(self) -> set[str]:
        """Names of the registered functions that it calls, in its regions too."""
        own = {control.function for control in self.controls if control.function}
        return own.union(*[region.registered for control in self.controls for region in control.regions])


@dataclass(frozen=True)
class Library:
    """Public functions over one block of weights.

    Attributes:
        programs: the functions, of different names; the first is the one that ``forge_model_get`` returns.
        states: what their ``bindings`` number.
        weights_size: bytes.
    """

    programs: tuple[Program, ...]
    states: tuple[StateSpec, ...] = ()
    weights_size: int = 0

    @property
    def functions(self) -> tuple[Function, ...]:
        """The kernels of all programs, each once."""
        return tuple(dict.fromkeys(function for program in self.programs for function in program.functions))

    @property
    def registered(self) -> tuple[str, ...]:
        """Names of the registered functions that the programs call, in order."""
        return tuple(sorted({name for program in self.programs for name in program.registered}))


@dataclass(frozen=True)
class Control:
    """A node that the host runs: ``forge_control``.

    The kernels of ``regions`` are functions of the outermost program, and offsets of their weights count from its weights.
    """

    name: str
    kind: str  # if, loop, scan, sequence_map, ...
    regions: tuple[Program, ...]
    carried: int = 0
    scanned: int = 0
    has_trips: bool = False
    has_condition: bool = False
    backwards: tuple[bool, ...] = ()
    axis: int = 0
    adds_axis: bool = False  # sequence_concat
    drops_axis: bool = False  # sequence_split
    function: str = ""  # call_registered: the name of what it calls
