"""How methods of modules become graphs: what is being traced now, and what one operation of ``forge.nn`` builds with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import ForgeError, InvalidGraphError, OpAttributeInvalid, OpAttributeUnimplemented, OptionError
from forge.frontends.scope import ImportState
from forge.frontends.state.sizes import SizeScope
from forge.ir import retype
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType, Type
from forge.ops.core.composer import Composer

if TYPE_CHECKING:
    from forge.nn.effects import IOEffect
    from forge.nn.tensor import Parameter, Tensor

Scope = SizeScope[ImportState]


class Trace:
    """A graph in the making, of a method or of a subroutine.

    Attributes:
        where: what messages call it.
        functions: of the module, by digest, to which subroutines are added.
        parameters: values that stand for parameters here, by identity.
        io: what ``print_`` and ``debug_func`` are effects of; None outside of debug mode.
        paths: names of modules, by identity.
        parent: the trace in which a subroutine is called.
        module: whose ``forward`` a subroutine is.
    """

    def __init__(self, where: str, functions: dict[str, Graph] | None = None, parent: Trace | None = None) -> None:
        self.where = where
        self.graph = Graph(name=where)
        self.scope: Scope = SizeScope(self.graph, ImportState(), {})
        self.functions: dict[str, Graph] = {} if functions is None else functions
        self.parameters: dict[int, Value] = {}
        self.io: IOEffect | None = None
        self.paths: Mapping[int, str] = {}
        self.parent = parent
        self.module: object = None
        self.extern_modules: list[Any] = [] if parent is None else parent.extern_modules
        self._places: list[str] = []

    def input(self, type_: Type, name: str) -> Value:
        """One more input."""
        value = self.graph.add_input(type_, self.scope.unique(name))
        self.scope.note_sizes(value)
        return value

    def bind(self, parameter: Parameter, name: str, *, constant: bool = False) -> Value:
        """What stands for ``parameter`` from now on: an input, or a constant of its data."""
        if constant:
            value = Builder(self.graph).constant(parameter.data, name=self.scope.unique(name))
        else:
            value = self.input(parameter.type, name)
        self.parameters[id(parameter)] = value
        return value

    def count(self, g: Composer, number: Value) -> Dim:
        """An input of rank 0 and type int64 as a size of its name; 0 for a negative one."""
        size = self.scope.counted(g, number)
        symbol = dims.symbol_name(size)
        if symbol is None or number.name in self.scope.sources:
            return size
        named = dims.symbol(number.name)
        retype.substitute_in_graph(self.graph, {symbol: named})
        self.scope.counts[number.name] = self.scope.counts.pop(symbol)
        return named

    @property
    def place(self) -> str:
        """The path of the module whose ``forward`` runs."""
        return self._places[-1] if self._places else ""

    @contextmanager
    def inside(self, module: object) -> Iterator[None]:
        """While ``forward`` of ``module`` runs."""
        self._places.append(self.paths.get(id(module), self.place))
        try:
            yield
        except ForgeError as error:
            note = f"in {self.place or self.where} ({type(module).__name__})"
            if not getattr(error, "__notes__", None):
                error.add_note(note)
            raise
        finally:
            self._places.pop()


_current: ContextVar[Trace | None] = ContextVar("forge.nn", default=None)


def current() -> Trace | None:
    """What is being traced; None outside of an export."""
    return _current.get()


def tracing(what: str) -> Trace:
    """What is being traced.

    Raises:
        OptionError: nothing is; ``what`` belongs into methods of modules.
    """
    trace = _current.get()
    if trace is None:
        raise OptionError(f"{what}: is called outside of an export; expected a call in a method of a module that is exported")
    return trace


@contextmanager
def traced(trace: Trace) -> Iterator[Trace]:
    """While ``trace`` is what operations add to."""
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


class Context(Composer):
    """What one operation builds with: of the method that is traced or, outside of an export, a graph that is evaluated at once.

    Attributes:
        name: of the operation, for messages and names of results.
    """

    def __init__(self, name: str) -> None:
        trace = _current.get()
        self.is_eager = trace is None
        self.trace = Trace(name) if trace is None else trace
        self.name = name
        super().__init__(Builder(self.trace.graph, location="/".join(filter(None, (self.trace.place, name)))))

    def multi(self, op: str, *operands: Value | None, regions: Sequence[Graph] = (), **attributes: Any) -> list[Value]:
        """Applies an operator with any number of results.

        Raises:
            OptionError: operands or attributes do not fit.
        """
        with self.named():
            return super().multi(op, *operands, regions=regions, **attributes)

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """``axis`` counted from the front.

        Raises:
            OptionError: it is not an integer, or out of range.
        """
        if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
            raise OptionError(f"{self.name}: {what}: got {axis!r}; expected an integer")
        with self.named():
            return super().axis(int(axis), rank, what)

    def axes(self, axes: Any, rank: int, what: str = "axis") -> tuple[int, ...]:
        """One axis or several, counted from the front; all for None.

        Raises:
            OptionError: one is not an integer, out of range, or named twice.
        """
        if axes is None:
            return tuple(range(rank))
        found = tuple(self.axis(axis, rank, what) for axis in (axes if isinstance(axes, list | tuple) else [axes]))
        if len(set(found)) != len(found):
            raise OptionError(f"{self.name}: {what}: got {axes}, which names an axis twice; expected each once")
        return found

    def dtype(self, dtype: Any) -> str:
        """The name of an element type.

        Raises:
            OptionError: there is none of that name.
        """
        try:
            return dtypes.canonical(dtype)
        except TypeError as error:
            raise OptionError(f"{self.name}: {error}") from error

    def unsupported(self, message: str) -> OpAttributeUnimplemented:
        return super().unsupported(f"{self.name}: {message}")

    @contextmanager
    def named(self) -> Iterator[None]:
        """What does not fit is an error of the operation that the user called."""
        try:
            yield
        except (InvalidGraphError, OpAttributeInvalid) as error:
            text = str(error).removeprefix(f"{self.name}: ")
            raise OptionError(f"{self.name}: {text}") from error

    def size(self, size: Dim) -> Value:
        """``size`` as a tensor of rank 0 and type int64."""
        return self.trace.scope.size(self, size)

    def value(self, x: Any, dtype: str | None = None) -> Value:
        """What stands for a tensor, a number, an array or a size in the graph; those without a type get ``dtype``.

        Raises:
            OptionError: it is none, or a tensor that is not known here.
        """
        from forge.nn.tensor import Tensor

        if isinstance(x, Value):
            return x
        if isinstance(x, Tensor):
            return self._of_tensor(x)
        if isinstance(x, DimExpr):
            return self.cast(self.size(x), dtype or "int64")
        if isinstance(x, bool | int | float | complex | np.generic | np.ndarray | list | tuple):
            try:
                return self.constant(x, dtype if isinstance(x, bool | int | float | complex) else None)
            except (InvalidGraphError, OverflowError, ValueError, TypeError) as error:
                raise OptionError(f"{self.name}: got {x!r} where {dtype or 'an array'} is expected: {error}") from error
        raise OptionError(f"{self.name}: got {type(x).__name__}; expected a Tensor or a number")

    def _of_tensor(self, x: Tensor) -> Value:
        from forge.nn.tensor import Parameter

        if isinstance(x, Parameter):
            return self._of_parameter(x)
        if x.constant is not None:
            return self.constant(x.constant)
        if x.source is None:
            raise OptionError(f"{self.name}: got a placeholder; it only states a type, and has no contents")
        if not self._is_here(x.source):
            raise OptionError(f"{self.name}: got a tensor of another method; expected one that this method has computed or got")
        return x.source

    def _of_parameter(self, x: Parameter) -> Value:
        found = self.trace.parameters.get(id(x))
        if found is not None:
            return found
        if x.data is not None:
            return self.constant(x.data)
        expected = "expected an attribute of the module that is exported" if not self.is_eager else "assign its data first"
        raise OptionError(f"{self.name}: got a parameter that is not bound to data; {expected}")

    def _is_here(self, value: Value) -> bool:
        graph = self.trace.graph
        return value in graph.inputs if value.producer is None else value.producer.graph is graph

    def alike(self, *operands: Any) -> list[Value]:
        """Operands of an element-wise operation: numbers take the element type of the tensors.

        A float with integers, and an integer with bools, make all of the type that floats, and integers, have by default.

        Raises:
            OptionError: element types of tensors differ.
        """
        tensors = [self.value(x) for x in operands if not is_number(x)]
        kinds = list(dict.fromkeys(v.dtype for v in tensors))
        if len(kinds) > 1:
            raise OptionError(f"{self.name}: got {' and '.join(kinds)}; expected one element type; convert with astype")
        given = iter(tensors)
        numbers = [x for x in operands if is_number(x)]
        kind = _of_numbers(numbers) if numbers else kinds[0]
        if kinds and _rank_of(kind) <= _rank_of(kinds[0]):
            kind = kinds[0]
        return [self.value(x, kind) if is_number(x) else self.cast(next(given), kind) for x in operands]

    def tensor(self, value: Value) -> Tensor:
        """``value`` as the user holds it."""
        from forge.nn.tensor import Tensor

        if self.is_eager:
            return Tensor.from_const(self._evaluated(value))
        self.trace.scope.note_sizes(value)
        if value.producer is not None and not value.name and value.constant is None:
            value.name = self.trace.scope.unique(self.name)
        return Tensor(_expr=value)

    def tensors(self, values: Sequence[Value]) -> tuple[Tensor, ...]:
        return tuple(map(self.tensor, values))

    def _evaluated(self, value: Value) -> np.ndarray:
        if value.constant is not None:
            return value.constant
        self.trace.graph.outputs = [value]
        try:
            (result,) = run_graph(self.trace.graph, [])
        except ForgeError as error:
            raise OptionError(f"{self.name}: {error}") from error
        assert isinstance(result, np.ndarray | np.generic)
        return np.asarray(result)


def is_number(x: Any) -> bool:
    """Whether ``x`` takes the element type of what it is combined with."""
    return isinstance(x, bool | int | float | complex | DimExpr) and not isinstance(x, np.generic)


def _rank_of(dtype: str) -> int:
    """Bools are before integers, then come floats and complex numbers."""
    if dtypes.is_complex(dtype):
        return 3
    return 0 if dtype == "bool" else 1 if dtypes.is_integer(dtype) else 2


def _of_numbers(numbers: Sequence[Any]) -> str:
    """The element type of numbers that are combined with numbers only; that of parameters for a float."""
    from forge.nn.defaults import get_default_dtype

    kind = dtypes.canonical(np.result_type(*(np.int64 if isinstance(x, DimExpr) else type(x) for x in numbers)))
    return get_default_dtype() if kind == "float64" else kind


def as_dims(shape: Any, what: str) -> tuple[Dim, ...]:
    """A shape of numbers, names and sizes.

    Raises:
        OptionError: it is none.
    """
    if isinstance(shape, int | str | DimExpr) and not isinstance(shape, bool):
        shape = (shape,)
    if not isinstance(shape, Sequence):
        raise OptionError(f"{what}: shape: got {shape!r}; expected numbers and names of sizes")
    return tuple(as_dim(size, what) for size in shape)


def as_dim(size: Any, what: str) -> Dim:
    """A size: a number, a name, or what sizes of tensors are computed to.

    Raises:
        OptionError: it is none.
    """
    if isinstance(size, DimExpr):
        return size
    if isinstance(size, str) and size:
        return dims.symbol(size)
    if isinstance(size, int | np.integer) and not isinstance(size, bool):
        return int(size)
    raise OptionError(f"{what}: shape: got {size!r}; expected a number, the name of a size, or a size of a tensor")


def tensor_type(shape: Any, dtype: str | None, what: str) -> TensorType:
    """The type of a tensor of this shape.

    Raises:
        OptionError: the shape or the element type is none.
    """
    from forge.nn.defaults import get_default_dtype

    sizes = as_dims(shape, what)
    negative = [d for d in sizes if isinstance(d, int) and d < 0]
    if negative:
        raise OptionError(f"{what}: shape: got {negative[0]}; expected sizes of at least 0")
    try:
        return TensorType(sizes, dtypes.canonical(dtype or get_default_dtype()))
    except (InvalidGraphError, ValueError, TypeError) as error:
        raise OptionError(f"{what}: {error}") from error
