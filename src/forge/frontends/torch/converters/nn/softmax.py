"""Softmax and its logarithm."""

from __future__ import annotations

from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def _along(g: Context, op: str, x: Value, dim: int) -> Value:
    data = g.cast(x, g.dtype)
    if data.rank:
        return g.call(op, data, axis=g.axis(dim, data.rank, "dim"))
    return g.reshape(g.call(op, g.reshape(data, (1,)), axis=0), ())


def _softmax(op: str, *targets: str) -> None:
    @converts(*targets)
    def convert(g: Context, self: Value, *, dim: int, dtype: str | None = None, half_to_float: bool = False) -> Value:
        return _along(g, op, self, dim)


_softmax("nn.softmax", "softmax.int", "_softmax.default")
_softmax("nn.log_softmax", "log_softmax.int", "_log_softmax.default")


@converts("_safe_softmax.default")
def safe_softmax(g: Context, self: Value, *, dim: int, dtype: str | None = None) -> Value:
    """Zeros where all scores are -inf."""
    result = _along(g, "nn.softmax", self, dim)
    hidden = g.call("equal", self, g.scalar(float("-inf"), self))
    unseen = g.call("all", hidden, axis=g.axis(dim, self.rank, "dim"), keepdims=True) if self.rank else hidden
    return g.call("where", unseen, g.scalar(0, result), result)
