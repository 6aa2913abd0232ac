"""Effects: what the methods of a module change. A method gets the old state and gives the new one; sessions keep it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import OptionError
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, tensor_type, tracing


class Effect:
    """A state that methods read and replace. A subclass says what it is at first; methods of it change ``state``.

    ``create``, ``set_state`` and ``finalize`` are called at the beginning and end of each method that is exported.

    Attributes:
        state: the values that are the state now, while a method is traced.
    """

    state: list[Value]

    def emit_init(self, name_hint: str, builder: Builder) -> list[Value]:
        """Adds the state of a new session to a graph without inputs, and returns its values."""
        raise NotImplementedError(f"{type(self).__name__}.emit_init")

    def create(self, name_hint: str) -> list[Value]:
        """The inputs of the method that is traced through which it gets the state: those that `emit_init` gives types for."""
        initial = self.emit_init(name_hint, Builder())
        names = [name_hint] if len(initial) == 1 else [f"{name_hint}.{k}" for k in range(len(initial))]
        return [tracing(name_hint).input(value.type, name) for value, name in zip(initial, names)]

    def set_state(self, state_vars: Sequence[Value]) -> None:
        """Makes ``state_vars`` the state."""
        self.state = list(state_vars)

    def finalize(self) -> list[Value]:
        """The state at the end of the method, which the effect forgets."""
        state, self.state = self.state, []
        return state

    def to(self, dtype: str | None = None) -> None:
        """Makes ``dtype`` the element type; here without effect."""


class IOEffect(Effect):
    """What ``print_`` and ``debug_func`` are effects of. It has no state: calls stay in the order of the program."""

    def __init__(self) -> None:
        self.state = []

    def emit_init(self, name_hint: str, builder: Builder) -> list[Value]:
        return []


class KVCache(Effect):
    """Rows that calls append, such as the keys of an attention layer: ``(number of rows, *unit_shape)``.

    A new session has no row. Memory doubles when it is full. `Module.jit` begins with that of ``init_seq_len`` rows; for other
    sessions ``Runtime.session(capacity=...)`` says how much there is at first.

    Args:
        init_seq_len: for how many rows `Module.jit` makes room at first.
        unit_shape: shape of a row.
        dtype: by default that of `get_default_dtype`.

    Raises:
        OptionError: an argument does not fit.
    """

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        if isinstance(init_seq_len, bool) or not isinstance(init_seq_len, int) or init_seq_len < 0:
            raise OptionError(f"KVCache: init_seq_len: got {init_seq_len!r}; expected a number of rows")
        self.init_seq_len = init_seq_len
        self.row = tensor_type(unit_shape, dtype, "KVCache")
        if not dims.is_static(*self.row.shape):
            raise OptionError(f"KVCache: unit_shape: got {unit_shape!r}; expected numbers")
        self.state = []

    @property
    def unit_shape(self) -> tuple[Dim, ...]:
        return self.row.shape

    @property
    def dtype(self) -> str:
        return self.row.dtype

    def emit_init(self, name_hint: str, bb: Builder) -> list[Value]:  # the seed's name of the parameter
        return [bb.constant(np.zeros((0, *self.row.shape), dtypes.numpy_dtype(self.dtype)), name=name_hint)]

    def create(self, name_hint: str) -> list[Value]:
        length = dims.symbol(name_hint.replace(".", "_") + "_length")
        return [tracing(name_hint).input(TensorType((length, *self.row.shape), self.dtype), name_hint)]

    def to(self, dtype: str | None = None) -> None:
        """Makes ``dtype`` the element type; None changes nothing."""
        if dtype is not None:
            self.row = tensor_type(self.row.shape, dtype, "KVCache.to")

    def append(self, new_element: Tensor) -> None:
        """Appends rows.

        Args:
            new_element: ``(number of rows, *unit_shape)``, of the cache's element type.

        Raises:
            OptionError: it has another shape or element type, or the method is not exported.
        """
        shape = new_element.shape
        if new_element.dtype != self.dtype or tuple(shape[1:]) != self.row.shape:
            expected = f"({', '.join(['rows', *map(str, self.row.shape)])}) of {self.dtype}"
            raise OptionError(f"KVCache.append: got {new_element.type}; expected {expected}")
        g = Context("append")
        self.state = [g.call("concatenate", self._rows("append"), g.value(new_element), axis=0)]

    def view(self, seq_len: Dim | None = None) -> Tensor:
        """All rows.

        Args:
            seq_len: how many there are, as the caller knows it: a number, or a size of the method's arguments. The model
                checks that when it runs. None: what it is when it runs.

        Returns:
            ``(seq_len, *unit_shape)``.

        Raises:
            OptionError: the method is not exported.
        """
        rows = self._rows("view")
        g = Context("view")
        if seq_len is None or dims.equal(rows.shape[0], seq_len):
            return g.tensor(rows)
        return g.tensor(g.call("broadcast_to", rows, shape=(seq_len, *self.row.shape), exact=True))

    def _rows(self, method: str) -> Value:
        tracing(f"KVCache.{method}")
        if not self.state:
            raise OptionError(f"KVCache.{method}: the cache belongs to no method here; expected one of the exported module")
        return self.state[0]
