"""Complex numbers and their parts. What torch only marks as conjugated is computed at once."""

from __future__ import annotations

from forge import dtypes
from forge.compose import elementwise
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("real.default")
def real(g: Context, self: Value) -> Value:
    return g.call("complex.real", self) if dtypes.is_complex(self.dtype) else self


@converts("imag.default")
def imag(g: Context, self: Value) -> Value:
    return g.call("complex.imag", self)


@converts("conj.default", "_conj.default", "conj_physical.default", "_conj_physical.default")
def conj(g: Context, self: Value) -> Value:
    return g.call("complex.conj", self) if dtypes.is_complex(self.dtype) else self


@converts("resolve_conj.default", "resolve_neg.default")
def resolve(g: Context, self: Value) -> Value:
    return self


@converts("angle.default")
def angle(g: Context, self: Value) -> Value:
    return elementwise.angle(g, self if dtypes.is_complex(self.dtype) else g.cast(self, g.dtype))


@converts("complex.default")
def complex_(g: Context, real: Value, imag: Value) -> Value:
    part = dtypes.part(g.dtype)
    return g.call("complex.make", g.cast(real, part), g.cast(imag, part))


@converts("polar.default")
def polar(g: Context, abs: Value, angle: Value) -> Value:  # noqa: A002
    parts = (g.call("multiply", abs, g.call(name, angle)) for name in ("cos", "sin"))
    return g.call("complex.make", *parts)


@converts("view_as_real.default")
def view_as_real(g: Context, self: Value) -> Value:
    return g.call("stack", g.call("complex.real", self), g.call("complex.imag", self), axis=self.rank)


@converts("view_as_complex.default")
def view_as_complex(g: Context, self: Value) -> Value:
    parts = (g.call("take", self, g.constant(k, "int64"), axis=self.rank - 1) for k in (0, 1))
    return g.call("complex.make", *parts)
