"""Running sums, products and extremes."""

from __future__ import annotations

from forge.compose import cumulative
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def _running(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int, dtype: str | None = None) -> Value:
        x = g.cast(self, g.dtype)
        return g.call(op, x, axis=g.axis(dim, x.rank, "dim")) if x.rank else x


for _op in ("cumsum", "cumprod"):
    _running(_op)


@converts("logcumsumexp.default", "_logcumsumexp.default")
def logcumsumexp(g: Context, self: Value, *, dim: int) -> Value:
    return cumulative.logcumsumexp(g, self, g.axis(dim, self.rank, "dim")) if self.rank else self


def _extreme(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int) -> list[Value]:
        if not self.rank:
            return [self, g.constant(0, "int64")]
        return cumulative.extremes(g, op, self, g.axis(dim, self.rank, "dim"))


_extreme("cummax")
_extreme("cummin")
