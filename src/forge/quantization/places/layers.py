"""Which layers of a model are quantized, and where their data are rounded.

A layer is a product with a constant weight (convolution, dense layer), or of two activations. What it reads is rounded where it
is made, before the views, selections and concatenations on its way, so that integers are what is stored and moved. Parts of a
concatenation are rounded alike. The other readers of a rounded value read the rounded numbers, too, but for normalizations and
what they normalize: residual streams of transformers stay floats.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forge.errors import OptionError
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Category
from forge.ops.core.product import Product
from forge.ops.nn.convolution import Conv, ConvBase
from forge.ops.nn.matmul import Dense
from forge.ops.nn.transposed_convolution import Conv2DTranspose
from forge.passes.matching import operand
from forge.quantization.places.products import is_recurrent, products

Excluded = str | Node | Callable[[Node], bool]
EXCLUDED = "excluded"


@dataclass(frozen=True, eq=False)
class FloatLayer:
    """A product in float that can be quantized.

    Attributes:
        data: positions of the operands that are known at run time only.
        axis: of the weight, along which its elements make different results; None: the weight is not constant.
        channel_axis: the axis of the data along which products are summed, or the channels of a depthwise convolution lie.
    """

    node: Node
    data: tuple[int, ...]
    axis: int | None
    channel_axis: int

    @property
    def label(self) -> str:
        return self.node.label

    @property
    def weight(self) -> Value | None:
        return None if self.axis is None else self.node.operands[1]

    @property
    def array(self) -> np.ndarray:
        """The constant weight."""
        return np.asarray(operand(self.node, 1).constant)

    @property
    def depth(self) -> int:
        """The number of products that each result is the sum of."""
        assert self.axis is not None
        return int(self.array.size) // int(self.array.shape[self.axis])

    @property
    def product(self) -> Product[Any]:
        product = Product[Any].of(self.node)
        assert product is not None
        return product

    @property
    def groups(self) -> int:
        return self.product.groups

    @property
    def summed_axis(self) -> int | None:
        """The axis of the weight along which products are summed; None: none is constant, or it has several groups."""
        return 1 - self.axis if self.axis is not None and self.groups == 1 else None

    @property
    def inputs(self) -> list[Value]:
        return [operand(self.node, k) for k in self.data]

    @property
    def result(self) -> Value:
        return self.node.result


def layer_of(node: Node) -> FloatLayer | None:
    """Returns ``node`` as a layer of float32 that can be quantized; None: it is none."""
    if len(node.results) != 1 or any(v is not None and v.dtype != "float32" for v in (*node.operands, *node.results)):
        return None
    product: Product[Any] | None = Product.of(node)
    if product is None or product.left.constant is not None:
        return None
    if isinstance(product, ConvBase):
        is_known = isinstance(product, Conv) or isinstance(product, Conv2DTranspose) and product.groups == 1
        layouts = product.attrs.data_layout, product.attrs.kernel_layout
        has_channels_first = layouts[0].startswith("NC") and layouts[1].startswith(("OI", "IO"))
        is_layer = product.right.constant is not None and is_known and has_channels_first
        return FloatLayer(node, (0,), product.weight_axis, 1) if is_layer else None
    if product.right.constant is None:
        return None if isinstance(product, Dense) else FloatLayer(node, (0, 1), None, -1)
    return FloatLayer(node, (0,), product.weight_axis, -1) if product.is_by_matrix else None


def is_depthwise(layer: FloatLayer) -> bool:
    """Returns whether each result of a convolution is of one channel."""
    conv = Conv.of(layer.node)
    return conv is not None and conv.attrs.groups == conv.weight.shape[0] > 1 and conv.weight.shape[1] == 1


def numbered_layers(graph: Graph) -> dict[int, FloatLayer]:
    """Returns the layers of ``graph`` in order, by their number among `products`."""
    return {k: layer for k, node in enumerate(products(graph)) if (layer := layer_of(node)) is not None}


def layers_of(graph: Graph) -> list[FloatLayer]:
    """Returns the layers of ``graph`` in order."""
    return list(numbered_layers(graph).values())


def exclusions(given: object) -> tuple[Excluded, ...]:
    """Returns what a user gives for ``exclude`` as `left_out` takes it for copies of the graph: nodes become their numbers."""
    several: Iterable[Any] = given if isinstance(given, list | tuple | set | frozenset) else (given,)
    return tuple(f"%{e.number}" if isinstance(e, Node) else e for e in several)


def excluded(graph: Graph, exclude: Sequence[Excluded]) -> dict[int, str]:
    """Returns why layers stay in float that are excluded, by their number among `products`; raises as `left_out`."""
    found = left_out(graph, exclude, [node for node in graph.nodes if layer_of(node) is not None or is_recurrent(node)])
    return {k: EXCLUDED for k, node in enumerate(products(graph)) if node in found}


def left_out(graph: Graph, exclude: Sequence[Excluded], candidates: Collection[Node]) -> set[Node]:
    """Returns the candidates that ``exclude`` names.

    Args:
        exclude: names of nodes, of their results, of operators, of their places in the model or of the modules around these,
            patterns of such (``*`` matches any text), numbers as the text form has them (``%3``), or predicates of a node. Names
            of what a node of the model became besides a candidate, as of a bias, count as names of the candidate.

    Raises:
        OptionError: one of them names no candidate.
    """
    return {node for which in exclude for node in _matched(graph, which, candidates)}


def _matched(graph: Graph, which: Excluded, candidates: Collection[Node]) -> list[Node]:
    if callable(which):
        nodes = [node for node in graph.nodes if which(node)]
    elif isinstance(which, str):
        nodes = [n for n in graph.nodes if any(fnmatch.fnmatchcase(name, which) for name in _names(n))]
        if not nodes and which.startswith("%"):
            nodes = [n for n in graph.nodes if f"%{n.number}" == which]
    else:
        raise OptionError(f"exclude: got {which!r}; expected names, patterns, nodes or predicates of a node")
    found = [node for node in nodes if node in candidates]
    if found or callable(which):
        kept = found
    else:
        places = {node.location for node in nodes if node.location}
        kept = [node for node in candidates if node.location in places]
    if not kept:
        matched = ", ".join(list(dict.fromkeys(n.op for n in nodes))[:3]) or "no node"
        raise OptionError(f"exclude: {which!r}: matches {matched}, and so no layer; expected {_expected(which, candidates)}")
    return kept


def _expected(which: Excluded, candidates: Iterable[Node]) -> str:
    names = [node.shown_name for node in candidates]
    if not names:
        return "a model with layers of float32 to quantize"
    near = difflib.get_close_matches(which, names, 3) if isinstance(which, str) else []
    return f"the name of a layer or its result, a pattern, or a predicate of a node: {', '.join(near or names[:3])}"


def _names(node: Node) -> Iterator[str]:
    yield node.op
    yield from (name for name in (node.name, node.location, *(v.name for v in node.results)) if name)
    modules = [part for part in node.location.split("/")[:-1] if part]
    yield from (".".join(modules[: k + 1]) for k in range(len(modules)))


@dataclass
class Sites:
    """The places where data are rounded.

    Attributes:
        of: by layer, for each operand in ``data``, the values that are rounded before it.
        groups: values that are rounded alike, by each of them.
        channel_axis: by value.
    """

    of: dict[FloatLayer, list[list[Value]]] = field(default_factory=dict)
    groups: dict[Value, list[Value]] = field(default_factory=dict)
    channel_axis: dict[Value, int] = field(default_factory=dict)


def sites_of(layers: Iterable[FloatLayer]) -> Sites:
    """Finds where the data of ``layers`` are rounded, and what else is rounded so that integers are stored."""
    sites = Sites()
    for layer in layers:
        sites.of[layer] = [_place(sites, value, layer.channel_axis) for value in layer.inputs]
    for value in list(sites.groups):
        _place_terms(sites, value)
    return sites


def _place(sites: Sites, value: Value, channel_axis: int) -> list[Value]:
    found = list(dict.fromkeys(sources(value)))
    group = list(dict.fromkeys(v for source in found for v in sites.groups.get(source, [source])))
    for member in group:
        sites.groups[member] = group
        sites.channel_axis.setdefault(member, channel_axis)
    mean = value.producer
    data = mean.operands[0] if mean is not None and mean.op_def.is_average else None
    if data is not None:
        _place(sites, data, 1 if data.rank > 2 and channel_axis == -1 else channel_axis)
    return found


def sources(value: Value) -> Iterator[Value]:
    """Yields the values whose elements ``value`` moves and selects; constants are left out."""
    node = value.producer
    if node is not None and node.op == "concatenate":
        for part in node.operands:
            if part is not None:
                yield from sources(part)
    elif node is not None and moves(node):
        yield from sources(operand(node))
    elif value.constant is None:
        yield value


def moves(node: Node) -> bool:
    """Returns whether a node moves or selects elements of its first operand only."""
    op = node.op_def
    return (op.is_view or op.is_permutation or op.is_selection) and len(node.results) == 1


def _place_terms(sites: Sites, value: Value) -> None:
    """Where ``value`` is a sum of two layers' results, the first of these is stored, and so rounded."""
    node = _before(value, lambda n: n.op_def.is_clamp)
    if node is None or node.op != "add" or any(v is None or v.constant is not None for v in node.operands):
        return
    terms = [v for v in node.operands if v is not None]
    if all(v not in sites.groups and _ends_a_layer(v) and len(v.uses) == 1 for v in terms) and terms[0] is not terms[1]:
        assert node.graph is not None
        stored = next(v for made in node.graph.nodes for v in terms if v.producer is made)
        sites.groups[stored] = [stored]
        sites.channel_axis[stored] = sites.channel_axis[value]


def _before(value: Value, skipped: Callable[[Node], bool]) -> Node | None:
    """The node that made ``value``, before those that are skipped by their first operands."""
    node = value.producer
    while node is not None and skipped(node):
        node = operand(node).producer
    return node


def _ends_a_layer(value: Value) -> bool:
    node = _before(value, lambda n: n.op in ("nn.bias_add", "add"))
    return node is not None and layer_of(node) is not None


def reads_rounded(user: Node) -> bool:
    """Returns whether a reader of a rounded value, which is not a layer, reads the rounded numbers."""
    if user.op == "add":
        return not any(_is_normalized(n) for n in user.succ)
    return user.op_def.category not in (Category.NORMALIZATION, Category.REDUCTION, Category.CONTROL) or user.op_def.is_average


def _is_normalized(node: Node) -> bool:
    if node.op == "add":
        return any(n.op_def.category is Category.NORMALIZATION for n in node.succ)
    return node.op_def.category is Category.NORMALIZATION
