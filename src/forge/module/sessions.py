"""Functions whose outputs are inputs of their next call become functions with states, which sessions keep.

Which output goes to which input is given, or follows from names as exporters write them: ``past_key_values.0.key`` and
``present.0.key``, ``input.past_key_values.layers.0.keys`` and ``output.past_key_values.layers.0.keys``, ``past_0`` and
``present_0``. What then follows from the states and from the tokens is computed: masks of ones, positions, and whether there is
a cache yet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError, OptionError
from forge.ir import retype
from forge.ir.builder import Builder
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.module import merged
from forge.module.merged import grown_axis
from forge.ops.core.composer import Composer

_CACHE = re.compile(r"(?:past_key_values|present_key_values|past|present)(?=[._])(?P<rest>.+)")
_DIRECTION = re.compile(r"(?:input|output)\.(?P<rest>.+)")
_DERIVED = re.compile(r"(?:decoder_|input\.)?(?P<kind>attention_mask|position_ids|cache_position)")


def as_session(module: Module, states: Mapping[str, str] | None, keep: Collection[str]) -> int:
    """Makes inputs states, in place, in all public functions of ``module``; returns how many states there are.

    Raises:
        OptionError: names that no function has, or nothing is recognized; InvalidGraphError: types that do not fit.
    """
    graphs = module.public
    pairs = _recognized(graphs) if states is None else _given(graphs, states)
    growth = _Growth()
    for where, graph in graphs.items():
        _check_pairs(f"as_session: @{where}", graph, pairs)
        _name_states(graph, pairs)
        for flag in filter(merged.is_flag, graph.inputs):
            merged.keep_states(graph, flag, flag.name not in keep)
        _substitute(graph, _sizes_of_states(graph))
        growth.look(graph)
    unknown = [name for name in keep if not any(name in _inputs(graph) for graph in graphs.values())]
    if unknown:
        raise OptionError(f"as_session: keep: got {unknown[0]!r}; expected names of: {_listed(graphs, 'inputs')}")
    for graph in graphs.values():
        _Derivation(graph, growth).run(keep)
    return len(pairs)


@dataclass(frozen=True)
class _Pair:
    """A state: the names that its input may have, the first of which becomes its own, and those of its output."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.inputs[0]


def _given(graphs: Mapping[str, Graph], states: Mapping[str, str]) -> list[_Pair]:
    if not isinstance(states, Mapping) or not all(isinstance(n, str) for item in states.items() for n in item):
        raise OptionError(f"as_session: states: got {states!r}; expected names of outputs by those of inputs")
    for what, names, known in (("inputs", [*states], _inputs), ("outputs", [*states.values()], _outputs)):
        for name in names:
            if not any(name in known(graph) for graph in graphs.values()):
                raise OptionError(f"as_session: states: got {name!r}; expected one of the {what}: {_listed(graphs, what)}")
            if names.count(name) > 1:
                raise OptionError(f"as_session: states: {name!r} stands there twice; expected each output once")
    return [_Pair((name,), (output,)) for name, output in states.items()]


def _recognized(graphs: Mapping[str, Graph]) -> list[_Pair]:
    """Inputs and outputs of all functions that have one name but for what says whether it is the old or the new one."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for graph in graphs.values():
        for found, names in ((read, _inputs(graph)), (written, _outputs(graph))):
            for name in names:
                plain = _plain(name)
                if plain is not None and name not in found.setdefault(plain, []):
                    found[plain].append(name)
    pairs = [_Pair(tuple(names), tuple(written[plain])) for plain, names in read.items() if plain in written]
    if not pairs:
        expected = "names such as past_key_values.0.key and present.0.key, input.x and output.x, past_0 and present_0"
        raise OptionError(
            f"as_session: no output is the next value of an input; got inputs {_listed(graphs, 'inputs')}; outputs "
            f"{_listed(graphs, 'outputs')}; expected {expected}; say which, as in as_session({{'input': 'output'}}), and join "
            "a function without such inputs with the one that has them first")
    return pairs


def _plain(name: str) -> str | None:
    """What the old and the new value of a state have in common; None: it is neither."""
    directed = _DIRECTION.fullmatch(name)
    rest = directed["rest"] if directed else name
    cached = _CACHE.fullmatch(rest)
    if cached:
        return "cache" + cached["rest"].replace("_", ".")
    return rest if directed else None


def _inputs(graph: Graph) -> list[str]:
    return [v.name for v in graph.inputs if v.name not in graph.params and v.name not in graph.states]


def _outputs(graph: Graph) -> list[str]:
    taken = {state.output for state in graph.states.values()} | set(graph.donated.values())
    return [name for number, name in enumerate(graph.output_names) if number not in taken]


def _listed(graphs: Mapping[str, Graph], what: str) -> str:
    names = [n for graph in graphs.values() for n in (_inputs(graph) if what == "inputs" else _outputs(graph))]
    return ", ".join(dict.fromkeys(names)) or "none"


def _check_pairs(where: str, graph: Graph, pairs: list[_Pair]) -> None:
    """Raises InvalidGraphError where an input cannot become what the output is."""
    inputs = {v.name: v for v in graph.inputs}
    outputs = dict(zip(graph.output_names, graph.outputs))
    for pair in pairs:
        old = next((inputs[name] for name in pair.inputs if name in inputs), None)
        new = next((outputs[name] for name in pair.outputs if name in outputs), None)
        for value in (v for v in (old, new) if v is not None):
            if not isinstance(value.type, TensorType):
                raise InvalidGraphError(f"{where}: {value.name!r} is {value.type}; expected a tensor as state")
        if old is None or new is None:
            continue
        fits = old.dtype == new.dtype and old.rank == new.rank
        if not fits or any(isinstance(a, int) and a != b for a, b in zip(old.shape, new.shape)):
            rule = "the same element type and rank, and sizes that differ in symbols only"
            raise InvalidGraphError(f"{where}: state {pair.name!r}: the output is {new.type} for {old.type}; expected {rule}")


def _name_states(graph: Graph, pairs: list[_Pair]) -> None:
    inputs, outputs = {v.name: v for v in graph.inputs}, graph.output_names
    for pair in pairs:
        number = next((outputs.index(name) for name in pair.outputs if name in outputs), None)
        old = next((inputs[name] for name in pair.inputs if name in inputs), None)
        if old is not None:
            old.name = pair.name
        if old is not None or number is not None:
            graph.states[pair.name] = State(number)


def _sizes_of_states(graph: Graph) -> dict[str, Dim]:
    """What symbols that only states have are: the sizes that these states get."""
    states = [v for v in graph.inputs if v.name in graph.states]
    given = {s for v in graph.inputs if v not in states and isinstance(v.type, TensorType) for s in dims.symbols(*v.shape)}
    found: dict[str, Dim] = {}
    for value in states:
        number = graph.states[value.name].output
        if number is None:
            continue
        new = graph.outputs[number].tensor_type
        grown = grown_axis(value.tensor_type, new)
        for axis, (a, b) in enumerate(zip(value.shape, new.shape)):
            symbol = dims.symbol_name(a)
            if symbol is not None and symbol not in given and axis != grown and set(dims.symbols(b)) <= given:
                found.setdefault(symbol, b)
    return found


def _substitute(graph: Graph, sizes: Mapping[str, Dim]) -> None:
    """Replaces symbols; what branches and loops give may have sizes that are known now."""
    if sizes:
        retype.substitute_in_graph(graph, sizes)
        _infer_again(graph)


def _infer_again(graph: Graph) -> None:
    changed: set[Value | None] = set()
    for node in graph.nodes:
        for region in node.regions:
            _infer_again(region)
        if node.regions or not changed.isdisjoint(node.operands):
            changed.update(retype.infer_again(node))


class _Growth:
    """Which axis of which state grows: what a function that only writes states cannot say itself."""

    def __init__(self) -> None:
        self.axes: dict[str, int] = {}

    def look(self, graph: Graph) -> None:
        for value in graph.inputs:
            state = graph.states.get(value.name)
            if state is not None and state.output is not None:
                axis = grown_axis(value.tensor_type, graph.outputs[state.output].tensor_type)
                if axis is not None:
                    self.axes[value.name] = axis

    def sizes(self, graph: Graph) -> tuple[Value | None, int, Dim, Dim, Dim] | None:
        """Of the first such state: its value before, the axis, the batch, and its length before and after a call."""
        for name, state in graph.states.items():
            if name not in self.axes or state.output is None:
                continue
            old, new = next((v for v in graph.inputs if v.name == name), None), graph.outputs[state.output]
            axis = self.axes[name]
            return old, axis, new.shape[0], 0 if old is None else old.shape[axis], new.shape[axis]
        return None


class _Derivation:
    """Computes inputs of one function that follow from its states and from other inputs."""

    def __init__(self, graph: Graph, growth: _Growth) -> None:
        self.graph, self.found = graph, growth.sizes(graph)

    def run(self, keep: Collection[str]) -> None:
        own = [v for v in self.graph.inputs if v.name in _inputs(self.graph) and v.name not in keep]
        derived = [v for v in own if _DERIVED.fullmatch(v.name) and isinstance(v.type, TensorType)]
        others = [v for v in self.graph.inputs if v not in derived and isinstance(v.type, TensorType)]
        for value in derived:
            self._derive(value, others)
        for flag in filter(merged.is_flag, own):
            self._decide(flag)

    def _derive(self, value: Value, others: list[Value]) -> None:
        """Puts what is computed in the place of an input, if ``others`` have all sizes that it needs."""
        if self.found is None:
            return
        old, axis, batch, past, total = self.found
        match = _DERIVED.fullmatch(value.name)
        kind, new = match["kind"] if match else "", total - past
        shape = {"attention_mask": (batch, total), "position_ids": (batch, new), "cache_position": (new,)}[kind]
        tokens = next(((v, k) for v in others for k, size in enumerate(v.shape) if dims.equal(size, new)), None)
        sizes = _sizes_of_derived(value, shape, others)
        if sizes is None or tokens is None:
            return
        _substitute(self.graph, sizes)
        g = Composer(Builder(self.graph, before=next(iter(self.graph.nodes), None)))
        if kind == "attention_mask":
            made = g.call("full", g.constant(1, value.dtype), shape=shape)
        else:
            made = g.count(g.extent(*tokens), new)
            if old is not None:
                made = g.call("add", made, g.extent(old, axis))
            made = g.cast(g.call("broadcast_to", made, shape=shape), value.dtype)
        self._replace(value, made)

    def _decide(self, flag: Value) -> None:
        """``flag`` is whether anything is in the cache."""
        if self.found is None:
            return
        old, axis, _, _, _ = self.found
        g = Composer(Builder(self.graph, before=next(iter(self.graph.nodes), None)))
        filled = g.constant(False) if old is None else g.call("greater", g.extent(old, axis), g.constant(0, "int64"))
        self._replace(flag, g.reshape(filled, flag.shape))

    def _replace(self, value: Value, made: Value) -> None:
        self.graph.replace_uses(value, made)
        self.graph.inputs.remove(value)


def _sizes_of_derived(value: Value, shape: tuple[Dim, ...], others: list[Value]) -> dict[str, Dim] | None:
    """What the symbols are that ``value`` alone has, so that it has this shape; None: it cannot have it."""
    known = {s for v in others for s in dims.symbols(*v.shape)}
    if value.rank != len(shape) or not set(dims.symbols(*shape)) <= known:
        return None
    sizes: dict[str, Dim] = {}
    for size, wanted in zip(value.shape, shape):
        symbol = dims.symbol_name(size)
        if dims.equal(size, wanted):
            continue
        if symbol is None or symbol in known or sizes.get(symbol, wanted) != wanted:
            return None
        sizes[symbol] = wanted
    return sizes
