"""What a picture says about a node: short texts for its box, and everything for the panel next to the graph."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from forge.dims import Dim
from forge.driver import analysis
from forge.errors import InvalidGraphError
from forge.ir.arrays import identity
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ir.text import attribute_text
from forge.ir.types import OptionalType, SequenceType, TensorType, Type

LONGEST_TEXT = 2000
"""Characters of an attribute, a name or an expression that are shown."""

_SHOWN_ELEMENTS = 8
_LONGEST_EXTENT = 18

CATEGORIES = {
    Category.CONTRACTION: ("convolution, matrix product", "#2f6fb5"),
    Category.ACTIVATION: ("activation", "#b8472f"),
    Category.NORMALIZATION: ("normalization", "#2b7a55"),
    Category.REDUCTION: ("pooling, reduction", "#7458b0"),
    Category.ARITHMETIC: ("element-wise", "#9a6412"),
    Category.MOVEMENT: ("data movement", "#5c6675"),
    Category.QUANTIZATION: ("quantization", "#a63b78"),
    Category.CONTROL: ("control flow, function", "#127782"),
    Category.OTHER: ("other", "#77702c"),
}
"""What the legend says, and the colour, which white text is readable on."""

_SHORT_DTYPES = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i", "complex": "c"}


def short_op(node: Node) -> str:
    """The operator without what says little in a picture."""
    return node.op.removeprefix("nn.").removeprefix("contrib_")


def clipped(text: str, most: int = LONGEST_TEXT) -> str:
    """``text``, without its middle where it is longer than ``most``."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def short_type(type_: Type) -> str:
    """``1×64×56×56 f32``."""
    if isinstance(type_, TensorType):
        extents = "×".join(clipped(str(d), _LONGEST_EXTENT) for d in type_.shape)
        return f"{extents} {short_dtype(type_.dtype)}".strip()
    if isinstance(type_, SequenceType):
        return f"list of {short_type(type_.element)}"
    if isinstance(type_, OptionalType):
        return f"maybe {short_type(type_.element)}"
    return clipped(str(type_), 40)


def short_dtype(dtype: str) -> str:
    for name, short in _SHORT_DTYPES.items():
        if dtype.startswith(name) and dtype[len(name) :].isdigit():
            return short + dtype[len(name) :]
    return dtype


Bound = Mapping[Value, np.ndarray]
"""Arrays of the inputs that a module's ``params`` give."""

_NOTHING: Bound = MappingProxyType({})


def contents(value: Value | None, bound: Bound) -> np.ndarray | None:
    """The array of a constant, or of an input that has one."""
    return None if value is None else bound.get(value, value.constant)


def box_lines(node: Node, bound: Bound = _NOTHING) -> list[str]:
    """Constants that the node reads, and the types of its results."""
    arrays = [(k, v, contents(v, bound)) for k, v in enumerate(node.operands) if v is not None]
    constants = [_constant_line(operand_name(node, k), v.type, array) for k, v, array in arrays if array is not None]
    results = [short_type(v.type) for v in node.results]
    if len(constants) > 4:
        constants = [*constants[:3], f"{len(constants) - 3} more constants"]
    if len(results) > 3:
        results = [*results[:2], f"{len(results) - 2} more results"]
    return [*constants, *(f"→ {r}" for r in results)]


def _constant_line(name: str, type_: Type, array: np.ndarray) -> str:
    return f"{name} = {clipped(_elements(array), 18)}" if array.size == 1 else f"{name} {short_type(type_)}"


def operand_name(node: Node, position: int) -> str:
    """The name of the formal operand."""
    formal = node.op_def.operands
    if position < len(formal) and not formal[position].variadic:
        return formal[position].name
    if formal and formal[-1].variadic:
        return f"{formal[-1].name}[{position - len(formal) + 1}]"
    return str(position)


def _elements(array: np.ndarray) -> str:
    """The first elements as text."""
    shown = [_element(v) for v in array.ravel()[:_SHOWN_ELEMENTS]]
    text = ", ".join(shown) + (", …" if array.size > len(shown) else "")
    return text if array.ndim == 0 or array.size == 1 else f"[{text}]"


def _element(value: Any) -> str:
    if isinstance(value, str | bytes):
        return clipped(ascii(value), 80)
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return str(value)
    try:
        return f"{complex(value):.5g}" if isinstance(value, np.complexfloating) else f"{float(value):.5g}"
    except (TypeError, ValueError):
        return clipped(str(value), 40)


def attributes(node: Node) -> list[dict[str, Any]]:
    """Name, text, and whether it is the default, of each attribute."""
    found = []
    for field in dataclasses.fields(node.attrs) if node.op != "constant" else ():
        text = _attribute_text(getattr(node.attrs, field.name))
        default = field.default is not dataclasses.MISSING and text == _attribute_text(field.default)
        found.append({"name": field.name, "text": clipped(text), "default": default})
    return found


def _attribute_text(value: Any) -> str:
    try:
        return attribute_text(value)
    except InvalidGraphError:
        return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def documentation(node: Node) -> str:
    """The operator's equation."""
    if node.op == "constant":
        return "A tensor known at compile time."
    text = inspect.cleandoc(type(node.op_def).__doc__ or "")
    return clipped("\n\n".join(" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n")))


def value_facts(value: Value, bound: Bound = _NOTHING) -> dict[str, Any]:
    """Name, type and size of a value; of a constant its first elements."""
    facts = {"name": clipped(value.name), "type": clipped(str(value.type)), "bytes": _dimension(analysis.bytes_of(value))}
    array = contents(value, bound)
    return facts if array is None else facts | {"constant": _elements(array)}


def _dimension(value: Dim | None) -> int | str | None:
    """A number, or the text of an expression."""
    return value if value is None or isinstance(value, int) else clipped(str(value), 400)


@dataclasses.dataclass(frozen=True)
class Cost:
    """Arithmetic operations, bytes read and written once each, and elements and bytes of weights.

    ``flops`` and ``traffic`` are numbers, or expressions of symbols, or None where they would be too long; ``flops_at_one`` and
    ``traffic_at_one`` are with every symbol 1.
    """

    flops: Dim | None = 0
    traffic: Dim | None = 0
    flops_at_one: int = 0
    traffic_at_one: int = 0
    parameters: int = 0
    parameter_bytes: int = 0

    def facts(self) -> dict[str, Any]:
        return {
            "flops": _dimension(self.flops),
            "bytes": _dimension(self.traffic),
            "flopsAtOne": self.flops_at_one,
            "bytesAtOne": self.traffic_at_one,
            "parameters": self.parameters,
            "parameterBytes": self.parameter_bytes,
        }


def cost_of(node: Node, functions: Mapping[str, Cost] = MappingProxyType({}), bound: Bound = _NOTHING) -> Cost:
    """The cost of one evaluation of ``node``; regions count once, a call what ``functions`` says."""
    if node.op == "call":
        return functions.get(node.attrs.function, Cost())
    flops = analysis.flops_of(node)
    moved = [v for v in [*dict.fromkeys(node.operands), *node.results] if v is not None]
    arrays = {identity(a): a for a in (contents(v, bound) for v in node.operands) if a is not None}
    sizes = [analysis.bytes_of(v) for v in moved]
    own = Cost(
        flops,
        _sum(sizes),
        analysis.at_one(flops),
        sum(map(analysis.at_one, sizes)),
        sum(a.size for a in arrays.values()),
        sum(a.nbytes for a in arrays.values()),
    )
    inner = [cost_of(n, functions) for region in node.regions for n in region.nodes if n.op != "constant"]
    return total([own, *inner])


def total(costs: Iterable[Cost]) -> Cost:
    """The sum. Weights that several nodes read count for each of them."""
    listed = list(costs)
    return Cost(
        _sum(c.flops for c in listed),
        _sum(c.traffic for c in listed),
        sum(c.flops_at_one for c in listed),
        sum(c.traffic_at_one for c in listed),
        sum(c.parameters for c in listed),
        sum(c.parameter_bytes for c in listed),
    )


def _sum(values: Iterable[Dim | None]) -> Dim | None:
    """None where a term is unknown or the expression becomes too long."""
    listed = list(values)
    try:
        return None if None in listed else sum(value for value in listed if value is not None)
    except InvalidGraphError:
        return None


def group_line(nodes: Sequence[Node], cost: Cost) -> str:
    """What the box of a group says."""
    count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
    return f"{count} · {short_number(cost.parameters)} weights" if cost.parameters else count


def short_number(value: int) -> str:
    """Three digits and a power of a thousand: ``11.7M``."""
    scaled = float(value)
    for unit in ("", "k", "M", "G", "T"):
        if scaled < 999.5 or unit == "T":
            break
        scaled /= 1000
    return f"{scaled:.3g}{unit}"


def histogram(nodes: Sequence[Node]) -> list[tuple[str, int]]:
    """Operators by how often they occur."""
    return Counter(n.op for n in nodes if n.op != "constant").most_common()
