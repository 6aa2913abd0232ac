"""Numbers that are computed: those of tensors, and arithmetic of Python on them and on sizes."""

from __future__ import annotations

from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.program import ScalarMeta
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_DTYPES = {"int": "int64", "float": "float64", "bool": "bool"}


@converts("item.default", "_local_scalar_dense.default")
def item(g: Context, self: Value) -> Value:
    return g.reshape(self, ())


def _dtype(g: Context) -> str:
    meta = g.metas[0]
    return _DTYPES[meta.kind] if isinstance(meta, ScalarMeta) else "float64"


def _binary(name: str, domain: str, *ops: str) -> None:
    @converts(*ops, domain=domain)
    def convert(g: Context, a: Operand, b: Operand) -> Value:
        return g.call(name, g.tensor(a, _dtype(g)), g.tensor(b, _dtype(g)))


for _name, _op in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "truediv"), ("power", "pow"),
                   ("floor_divide", "floordiv"), ("floor_mod", "mod"), ("logical_and", "and_"), ("logical_or", "or_")):
    _binary(_name, "operator", _op)
_binary("maximum", "torch", "sym_max")
_binary("minimum", "torch", "sym_min")


def _comparison(name: str, op: str) -> None:
    @converts(op, domain="operator")
    def convert(g: Context, a: Operand, b: Operand) -> Value:
        return g.call(name, *g.promoted(a, b))


for _name, _op in (("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
                   ("greater_equal", "ge")):
    _comparison(_name, _op)


def _unary(name: str, domain: str, op: str) -> None:
    @converts(op, domain=domain)
    def convert(g: Context, a: Operand) -> Value:
        return g.cast(g.call(name, g.tensor(a)), _dtype(g))


for _domain, _name, _op in (
    ("operator", "negative", "neg"), ("operator", "abs", "abs"), ("math", "ceil", "ceil"), ("math", "floor", "floor"),
    ("math", "trunc", "trunc"), ("torch", "trunc", "sym_int"),
):
    _unary(_name, _domain, _op)


@converts("round", domain="builtins")
def rounded(g: Context, a: Operand, b: Operand | None = None) -> Value:
    """To ``b`` digits after the point; as Python does, to the even neighbour."""
    if b is None:
        return g.cast(g.call("round", g.tensor(a)), _dtype(g))
    unit = g.call("power", g.constant(10.0, "float64"), g.tensor(b, "float64"))
    return g.call("divide", g.call("round", g.call("multiply", g.tensor(a, "float64"), unit)), unit)


@converts("sym_ite", domain="torch")
def choice(g: Context, a: Operand, b: Operand, c: Operand) -> Value:
    """``b if a else c``."""
    return g.call("where", g.tensor(a, "bool"), g.tensor(b, _dtype(g)), g.tensor(c, _dtype(g)))


@converts("_sym_sqrt", domain="torch")
def sqrt(g: Context, a: Operand) -> Value:
    return g.call("sqrt", g.tensor(a, "float64"))


@converts("sym_float", domain="torch")
def to_float(g: Context, a: Operand) -> Value:
    return g.tensor(a, "float64")


@converts("sym_not", domain="torch")
@converts("not_", domain="operator")
def negation(g: Context, a: Operand) -> Value:
    return g.call("logical_not", g.tensor(a, "bool"))
