"""Running sums, products and extremes."""

from __future__ import annotations

from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def _running(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int, dtype: str | None = None) -> Value:
        x = g.cast(self, g.dtype)
        return g.call(op, x, axis=g.axis(dim, x.rank, "dim")) if x.rank else x


for _op in ("cumsum", "cumprod", "logcumsumexp"):
    _running(_op)


def _extreme(op: str) -> None:
    @converts(f"{op}.default")
    def convert(g: Context, self: Value, *, dim: int) -> list[Value]:
        if not self.rank:
            return [self, g.constant(0, "int64")]
        if self.dtype == "bool":
            values, places = g.multi(op, g.cast(self, "uint8"), axis=g.axis(dim, self.rank, "dim"))
            return [g.cast(values, "bool"), places]
        return g.multi(op, self, axis=g.axis(dim, self.rank, "dim"))


_extreme("cummax")
_extreme("cummin")
