"""Recurrent layers, with the parameters of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from forge import dims
from forge.compose import recurrent
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Parameter, Tensor
from forge.nn.tracing import Context


class _Recurrent(Module):
    """What recurrent layers share.

    Args:
        num_layers: layers one after the other.
        bias: whether there are biases.
        batch_first: data are ``(batch, steps, input_size)``, not ``(steps, batch, input_size)``.
        bidirectional: a second layer reads the data backwards; results lie side by side.
        dtype: of the parameters; by default that of `get_default_dtype`.

    Attributes:
        weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0: of the first layer, ``(gates * hidden_size, ...)``; those of the
            second direction end in ``_reverse``.
    """

    operator: ClassVar[str]
    gates: ClassVar[int]
    order: ClassVar[tuple[int, ...]]
    states: ClassVar[int] = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, dtype: str | None = None,
    ) -> None:  # fmt: skip
        if num_layers < 1:
            raise OptionError(f"{type(self).__name__}: num_layers: got {num_layers}; expected at least 1")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.bidirectional = batch_first, bidirectional
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self.directions
            for suffix in ("", "_reverse")[: self.directions]:
                setattr(self, f"weight_ih_l{layer}{suffix}", Parameter((rows, inputs), dtype))
                setattr(self, f"weight_hh_l{layer}{suffix}", Parameter((rows, hidden_size), dtype))
                if bias:
                    setattr(self, f"bias_ih_l{layer}{suffix}", Parameter((rows,), dtype))
                    setattr(self, f"bias_hh_l{layer}{suffix}", Parameter((rows,), dtype))

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _run(self, x: Tensor, states: Sequence[Tensor] | None, activations: tuple[str, ...], **more: bool) -> tuple[Tensor, ...]:
        """Results and last states; ``activations`` are those of the operator's gates."""
        if x.ndim != 3 or not dims.equal(x.shape[2], self.input_size):
            expected = f"{'batch, steps' if self.batch_first else 'steps, batch'}, {self.input_size}"
            raise OptionError(f"{type(self).__name__}: got {x.type}; expected shape ({expected})")
        if states is None:
            batch = x.shape[0 if self.batch_first else 1]
            states = [op.zeros((self.num_layers * self.directions, batch, self.hidden_size), x.dtype)] * self.states
        g = Context(type(self).__name__.lower())
        return g.tensors(recurrent.layers(
            g, self.operator, g.value(x), [g.value(state) for state in states], self._cells(g), activations=activations,
            order=self.order, directions=self.directions, batch_first=self.batch_first, **more))  # fmt: skip

    def _cells(self, g: Context) -> list[list[Value]]:
        """The parameters of each layer and direction."""
        ends = [f"_l{layer}{end}" for layer in range(self.num_layers) for end in ("", "_reverse")[: self.directions]]
        names = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        return [[g.value(getattr(self, name + end)) for name in names if hasattr(self, name + end)] for end in ends]


class LSTM(_Recurrent):
    """Layers of long short-term memory (Hochreiter and Schmidhuber, 1997), as of ``torch.nn.LSTM``.

    Arguments are those of `GRU`.
    """

    operator = "nn.lstm"
    gates, order = 4, (0, 3, 1, 2)  # where the operator's gates (i, o, f, c) are among torch's
    states = 2

    def forward(self, x: Tensor, states: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Runs all steps.

        Args:
            x: ``(steps, batch, input_size)``, or ``(batch, steps, input_size)`` with ``batch_first``.
            states: hidden state and memory, ``(num_layers * directions, batch, hidden_size)`` each; zeros by default.

        Returns:
            The hidden states of the last layer, ``(steps, batch, directions * hidden_size)`` or as ``x`` is, and the last states.
        """
        y, hidden, memory = self._run(x, states, ("sigmoid", "tanh", "tanh"))
        return y, (hidden, memory)


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al., 2014), as of ``torch.nn.GRU``.

    Args:
        num_layers: layers one after the other.
        bias: whether there are biases.
        batch_first: data are ``(batch, steps, input_size)``, not ``(steps, batch, input_size)``.
        bidirectional: a second layer reads the data backwards; results lie side by side.
        dtype: of the parameters; by default that of `get_default_dtype`.
    """

    operator = "nn.gru"
    gates, order = 3, (1, 0, 2)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs all steps.

        Args:
            x: ``(steps, batch, input_size)``, or ``(batch, steps, input_size)`` with ``batch_first``.
            state: ``(num_layers * directions, batch, hidden_size)``; zeros by default.

        Returns:
            The hidden states of the last layer, ``(steps, batch, directions * hidden_size)`` or as ``x`` is, and the last ones.
        """
        states = None if state is None else (state,)
        y, hidden = self._run(x, states, ("sigmoid", "tanh"), linear_before_reset=True)
        return y, hidden


class RNN(_Recurrent):
    """``h = tanh(W x + b + R h' + c)``, as of ``torch.nn.RNN``; arguments are those of `GRU`.

    Args:
        nonlinearity: "tanh" or "relu".
    """

    operator = "nn.rnn"
    gates, order = 1, (0,)

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        bidirectional: bool = False, dtype: str | None = None, nonlinearity: str = "tanh",
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, bidirectional, dtype)
        if nonlinearity not in ("tanh", "relu"):
            raise OptionError(f"RNN: nonlinearity: got {nonlinearity!r}; expected 'tanh' or 'relu'")
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs all steps, as of `GRU`."""
        y, hidden = self._run(x, None if state is None else (state,), (self.nonlinearity,))
        return y, hidden
