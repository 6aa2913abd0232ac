"""Operators of one's own, each in one call: a NumPy meaning, and how loops compute it.

    define_operator("acme.selu", lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
                    element=lambda x, *, alpha: te.select(x > 0.0, x, te.call("expm1", x) * alpha),
                    attributes={"alpha": 1.6732})

Type inference, text form, symbolic shapes, fusion, interpretation and compilation follow, as for Forge's own operators.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any

from forge import dtypes, te
from forge.errors import OptionError
from forge.ir.op import REGISTRY, is_operator
from forge.ops.core.inference import broadcast_shapes, fail, same_dtype
from forge.ops.core.lowering import as_dim
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.elementwise.rows import Elementwise, Row, keywords

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)
_KINDS = {"injective": Kind.INJECTIVE, "reduction": Kind.REDUCTION, "opaque": Kind.OPAQUE}
_DEFINED: set[str] = set()


def define_operator(
    name: str,
    reference: Callable[..., Any],
    *,
    element: Callable[..., Expr] | None = None,
    lower: Callable[..., Tensor | Sequence[Tensor]] | None = None,
    operands: Sequence[str] = ("data",),
    attributes: Mapping[str, Any] | None = None,
    kind: str = "opaque",
    accepts: str = "numeric",
    accuracy: Accuracy = Accuracy.ROUNDING,
    precision: Precision = Precision.WIDE,
) -> None:
    """Defines the operator ``name``; one that was defined so before is replaced, for graphs that are built from then on.

    All functions take the operands by position and the attributes by keyword.

    Args:
        name: with a prefix of one's own, as in "acme.selu".
        reference: arrays in, an array or a sequence of arrays out: the meaning.
        element: one element of the result out of one of each operand, which broadcast (``forge.te`` expressions). Either this or
        lower: tensors in, tensors out: one ``te.compute`` for each result. It gives the types of the results, too.
            Every read must be in bounds at every point.
        operands: their names.
        attributes: default values by name; a type (``int``, ``float``, ``bool``, ``str``) where there is no default.
        kind: of what ``lower`` gives: "injective" (each element reads few others; it is computed where it is read), "reduction"
            (``te.reduce``; element-wise operators after it run inside its kernel) or "opaque" (a kernel of its own).
        accepts: element types of the operands: a class of ``forge.dtypes.CLASSES``, or one type.
        accuracy: how far results of compiled code may be from the reference; for those who test it.
        precision: what it does in float16 or bfloat16; by default its operands are float32 again.

    Raises:
        OptionError: an argument does not fit, or Forge has an operator of that name.
    """
    _check(name, element, lower, kind, accepts)
    formal = tuple(Operand(operand, accepts=accepts) for operand in operands)
    members = {
        "__doc__": f"Defined by ``define_operator`` in {reference.__module__}.", "__module__": reference.__module__,
        "name": name, "operands": formal, "Attrs": _record(name, attributes or {}), "accuracy": accuracy,
        "precision": precision,
    }
    base: type[Op[Any]] = _Element
    if lower is not None:
        base = _Computed
        members.update(_reference=staticmethod(reference), _lower=staticmethod(lower), kind=_KINDS[kind])
    elif element is not None:
        members["row"] = Row(
            name, "", reference, element, tuple(operands), accepts, _result(name, element, operands, attributes or {}), accuracy)
    REGISTRY.pop(name, None)
    register(type(name.replace(".", "_"), (base,), members))
    _DEFINED.add(name)


class _Element(Elementwise):
    """An operator that ``element`` describes."""

    def infer(self, attrs: Any, *operands: Value) -> Types:
        body = self._body([te.placeholder((), same_dtype(self.name, operands))[()] for _ in operands], attrs)
        return [TensorType(broadcast_shapes(self.name, *(v.shape for v in operands)), body.dtype)]


class _Computed(Op[Any]):
    """An operator that ``lower`` describes."""

    _reference: Callable[..., Any]
    _lower: Callable[..., Tensor | Sequence[Tensor]]

    def infer(self, attrs: Any, *operands: Value) -> Types:
        computed = self.lower(attrs, (), *(te.placeholder(v.shape, v.dtype) for v in operands))
        return [TensorType(tuple(_dim(self.name, extent) for extent in t.shape), t.dtype) for t in computed]

    def reference(self, attrs: Any, *operands: Array) -> Arrays:
        results = self._reference(*operands, **keywords(attrs))
        return list(results) if isinstance(results, list | tuple) else [results]

    def lower(self, attrs: Any, results: TensorTypes, *operands: Tensor) -> Lowered:
        computed = self._lower(*operands, **keywords(attrs))
        return [computed] if isinstance(computed, Tensor) else list(computed)


def _check(name: str, element: Any, lower: Any, kind: str, accepts: str) -> None:
    where = f"define_operator {name!r}"
    if not _NAME.fullmatch(name):
        raise OptionError(f"{where}: got that name; expected one with a prefix, as in 'acme.selu'")
    if name not in _DEFINED and is_operator(name):
        raise OptionError(f"{where}: Forge has an operator of that name; choose another prefix")
    if (element is None) == (lower is None):
        raise OptionError(f"{where}: got {'both' if lower else 'neither'} of element and lower; expected one of them")
    for option, value, known in (("kind", kind, list(_KINDS)), ("accepts", accepts, [*dtypes.CLASSES, *dtypes.NAMES])):
        if value not in known:
            raise OptionError(f"{where}: {option}: got {value!r}; expected one of {', '.join(known)}")


def _record(name: str, attributes: Mapping[str, Any]) -> type[Any]:
    """The dataclass of these attributes; those without default come first."""
    fields: list[Any] = []
    for attribute, value in attributes.items():
        if attribute == "name":
            raise OptionError(f"define_operator {name!r}: attributes: got 'name', which is that of the node; choose another")
        if isinstance(value, type):
            fields.insert(0, (attribute, value))
        elif isinstance(value, tuple):
            fields.append((attribute, GenericAlias(tuple, (type(value[0]) if value else int, ...)), value))
        else:
            fields.append((attribute, type(value), value))
        if not isinstance(value, bool | int | float | str | tuple) and value not in (bool, int, float, str):
            expected = "a number, a string, True, False, a tuple of these, or the type of one"
            raise OptionError(f"define_operator {name!r}: attributes: {attribute}: got {value!r}; expected {expected}")
    return dataclasses.make_dataclass("Attrs", fields, frozen=True)


def _result(name: str, element: Callable[..., Expr], operands: Sequence[str], attributes: Mapping[str, Any]) -> str:
    """Whether the element type of results is that of the operands, else which."""
    values = {n: v() if isinstance(v, type) else v for n, v in attributes.items()}
    for dtype in ("float32", "int32", "bool"):
        try:
            found = element(*(te.placeholder((), dtype)[()] for _ in operands), **values).dtype
        except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError):
            continue
        return "same" if found == dtype else found
    expected = "expected an expression for one of them"
    raise OptionError(f"define_operator {name!r}: element fails for float32, int32 and bool; {expected}")


def _dim(name: str, extent: Expr) -> Dim:
    """An expression of sizes as a dimension."""
    try:
        return as_dim(extent)
    except TypeError:
        raise fail(name, "a size of the result", extent, "+ - * // % min max of sizes of the operands and numbers") from None
