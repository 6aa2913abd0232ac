"""``IRModule``: the model as users hold it. Load it, look at it, edit it, compile it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.dims import Dim
from forge.errors import InvalidGraphError, OptionError
from forge.frontends import formats
from forge.ir import retype
from forge.ir.edits.extract import extract
from forge.ir.functions import joining
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.quantized import is_quantized
from forge.ir.saved import hashing, serialize
from forge.ir.saved.statistics import Calibration
from forge.ir.text.parser import parse_module
from forge.ir.types import TensorType
from forge.ir.verifier import verify
from forge.module import edits, loading, outputs, quantization, queries
from forge.options import CompileOptions
from forge.passes import fold_batch_norm, fold_constants, partition, partition_for_tensorrt

if TYPE_CHECKING:
    from forge.module.doors import Doors
    from forge.quantization.quantize import QuantizedModule
else:
    Doors = object

Some = Value | Node | str | Sequence[Value | Node | str]


class IRModule(Doors):
    """A model: graphs in Forge's IR and the weights that are not frozen into them.

    Args:
        mod: an ``ir.Module``, text of one, or another ``IRModule``; it is copied, arrays are shared.
        params: values for inputs of ``main``, by name: weights that stay outside the graph.
        inline_partitions: inline every function that a public one calls, and drop it.
        fold_constants: evaluate what depends on constants only, but for weights of at most 8 bits, which stay so.
        fold_batch_norms: fold batch normalizations into the convolution or dense layer before them. Weights in ``params`` that
            go into one become constants, and leave ``params`` unless something else reads them.

    Raises:
        OptionError: an argument of the wrong kind, or a path; ParseError: ``mod`` is text that cannot be parsed.
        InvalidGraphError: the module breaks a rule of the IR, or ``params`` names no input or has the wrong type.
    """

    _module: Module
    _quantization: QuantizedModule | None = None

    def __init__(
        self,
        mod: Module | IRModule | str,
        params: Mapping[str, np.ndarray] | None = None,
        inline_partitions: bool = False,
        fold_constants: bool = True,
        fold_batch_norms: bool = True,
    ) -> None:
        flags = {"inline_partitions": inline_partitions, "fold_constants": fold_constants, "fold_batch_norms": fold_batch_norms}
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise OptionError(f"IRModule: {name}: got {flag!r}; expected True or False")
        module = _as_module(mod)
        verify(module)
        self._take(module.copy(), {} if params is None else params, inline_partitions, fold_constants, fold_batch_norms)

    def _take(self, module: Module, params: Mapping[str, np.ndarray], inline: bool, constants: bool, batch_norms: bool) -> None:
        """Makes ``module``, which was verified and belongs to nothing else, that of this object."""
        self._module = module
        self._bind(params)
        self._simplify(inline, constants, batch_norms)
        for graph in self.graphs.values():
            retype.number_symbols(graph)
        self._original = self._module.copy()

    @classmethod
    def _loaded(cls, module: Module, simplify: bool) -> IRModule:
        """Of a module that a loader made; ``simplify``: constants and batch normalizations are folded."""
        loaded = cls.__new__(cls)
        loaded._take(module, {}, inline=False, constants=simplify, batch_norms=simplify)
        return loaded

    def _bind(self, params: Mapping[str, np.ndarray]) -> None:
        if not isinstance(params, Mapping):
            raise OptionError(
                f"IRModule: params: got {type(params).__name__}; expected arrays by name of input, as in {{'weight': array}}")
        self._module.params.update(params)
        retype.sizes_of_params(self.main)

    def _simplify(self, inline: bool, constants: bool, batch_norms: bool) -> None:
        options = CompileOptions()
        if inline:
            edits.inline(self)
        for graph in self.graphs.values():
            if constants:
                fold_constants.run_at_load(graph, options)
            if batch_norms:
                fold_batch_norm.run_with_params(graph, options)

    @property
    def mod(self) -> Module:
        """The module; prints as text without types."""
        return self._module

    @property
    def typed_mod(self) -> Module:
        """The module after verification; prints as text with types.

        Raises:
            InvalidGraphError: it breaks a rule of the IR.
        """
        return self._verified().with_types()

    def _verified(self) -> Module:
        """The module, after verifying it: nodes and values can be changed directly."""
        verify(self._module)
        return self._module

    def script(self) -> str:
        """The module as text with types, as it prints; contents of constants are left out.

        Raises:
            InvalidGraphError: it breaks a rule of the IR.
        """
        return str(self.typed_mod)

    @property
    def graphs(self) -> dict[str, Graph]:
        """All graphs by name: public functions, and those that they call."""
        return self._module.graphs

    @property
    def main(self) -> Graph:
        """The function ``main`` or, where there is none, the first public one; what has no name of a function is about it."""
        return self._module.main

    @property
    def functions(self) -> list[str]:
        """Names of the functions that users call, ``main`` first."""
        return list(self._module.public)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def subgraph_count(self) -> int:
        """Graphs other than ``main``."""
        return len(self.graphs) - 1

    @property
    def params(self) -> dict[str, np.ndarray]:
        """Weights that are not frozen into the graph, by input name."""
        return self._module.params

    @property
    def operators(self) -> dict[str, int]:
        """How often each operator occurs, regions included, the most frequent first."""
        counts = Counter(n.op for g in self.graphs.values() for n in g.walk() if n.op != "constant")
        return dict(counts.most_common())

    @property
    def input_nodes(self) -> list[Value]:
        """The model's inputs; states, and those that ``params`` binds, are left out.

        They answer what nodes are asked, so that a walk may begin here: ``op`` is "input", ``succ`` lists the nodes that use one.
        """
        return [v for v in self.main.inputs if v.name not in self.params and v.name not in self.main.states]

    @property
    def input_count(self) -> int:
        return len(self.input_nodes)

    @property
    def input_names(self) -> list[str]:
        return [v.name for v in self.input_nodes]

    @property
    def input_shapes(self) -> list[tuple[Dim, ...] | None]:
        """Shapes; symbolic dimensions print as their expression. None for a sequence, an optional or a tensor of unknown rank."""
        return [_shape(v) for v in self.input_nodes]

    @property
    def input_dtypes(self) -> list[str]:
        """Element types; where ``input_shapes`` gives None, the type's text: ``Sequence[Tensor[(n), float32]]``."""
        return [_dtype(v) for v in self.input_nodes]

    @property
    def output_node(self) -> Node:
        """The node of the first output.

        Raises:
            InvalidGraphError: there is no output, or the first one is an input.
        """
        producer = self.main.outputs[0].producer if self.main.outputs else None
        if producer is None:
            raise InvalidGraphError("output_node: no node produces the first output; expected an output that is not an input")
        return producer

    @property
    def state_names(self) -> list[str]:
        """Names of the tensors that a session keeps from one call to the next."""
        return list(dict.fromkeys(name for graph in self._module.public.values() for name in graph.states))

    @property
    def output_nodes(self) -> list[Value]:
        """The model's outputs; those that replace states are left out."""
        return list(self._outputs().values())

    def _outputs(self) -> dict[str, Value]:
        kept = {state.output for state in self.main.states.values()}
        return {name: v for k, (name, v) in enumerate(zip(self.main.output_names, self.main.outputs)) if k not in kept}

    @property
    def output_count(self) -> int:
        return len(self._outputs())

    @property
    def output_names(self) -> list[str]:
        return list(self._outputs())

    @property
    def output_shapes(self) -> list[tuple[Dim, ...] | None]:
        """As ``input_shapes``."""
        return [_shape(v) for v in self.output_nodes]

    @property
    def output_dtypes(self) -> list[str]:
        """As ``input_dtypes``."""
        return [_dtype(v) for v in self.output_nodes]

    @property
    def is_quantized(self) -> bool:
        """Whether the model converts numbers to few bits or back, or sums products of integers of 8 bits or fewer."""
        return any(is_quantized(n) for g in self.graphs.values() for n in g.walk())

    @property
    def is_tensorrt(self) -> bool:
        """Whether the model is partitioned for TensorRT: a function is marked for it."""
        marks = [graph.attributes.get(partition.COMPILER) for graph in self.graphs.values()]
        return partition_for_tensorrt.BACKEND in marks

    @property
    def fingerprint(self) -> str:
        """A digest of structure, names and contents: equal for identical models, in every process."""
        return hashing.fingerprint(self._verified())

    @property
    def is_calibrated(self) -> bool:
        """Whether statistics of a value of ``main``, as it is now, are known."""
        from forge.quantization.quantize import statistics_of

        return bool(statistics_of(self._verified()))

    @property
    def is_split_tensors(self) -> bool:
        """Whether `split_tensors` was called."""
        from forge.quantization.weights.splitting import ATTRIBUTE

        return any(graph.attributes.get(ATTRIBUTE) is True for graph in self._module.public.values())

    explain = queries.explain
    plot = queries.plot
    edit = edits.edit
    rewrite = edits.rewrite
    set_batch_size = edits.set_batch_size
    as_session = edits.as_session
    partition = edits.partition
    partition_for_tensorrt = edits.partition_for_tensorrt
    inline_partitions = edits.inline_partitions
    split_tensors = quantization.split_tensors
    calibrate = quantization.calibrate
    quantize = quantization.quantize
    quantize_with_accuracy = quantization.quantize_with_accuracy
    quantization_report = quantization.quantization_report
    compress = quantization.compress
    get_inference_function = outputs.get_inference_function
    compile = outputs.compile
    tune = outputs.tune
    save = outputs.save
    to_onnx = outputs.to_onnx

    @classmethod
    def from_expr(cls, expr: Any) -> IRModule:
        """A module whose ``main`` is a ``forge.relay.Function``, or an expression or tuple of some, whose free variables are its
        inputs.

        Raises:
            InvalidGraphError: it is neither, or needs what it does not list.
        """
        from forge.frontends.expressions import module_of

        return cls(module_of(expr), fold_constants=False, fold_batch_norms=False)

    def reload(self) -> None:
        """Takes back every change since the module was made, and forgets what calibration found."""
        self._module = self._original.copy()
        self._module.calibration, self._quantization = Calibration(), None

    def extract(self, outputs: Some, inputs: Some = ()) -> IRModule:
        """A module that computes some values of ``main`` from others; what else it needs stays an input.

        Args:
            outputs, inputs: values, nodes with one result, or names of such; one, or a sequence.

        Raises:
            OptionError: an argument is neither; InvalidGraphError: one is not of the graph.
        """
        graph = extract(self._verified().main, self._values("outputs", outputs), self._values("inputs", inputs))
        module = self._module.with_main(graph, {k: a for k, a in self.params.items() if k in {v.name for v in graph.inputs}})
        return IRModule(module, fold_constants=False, fold_batch_norms=False)

    def _values(self, what: str, which: Some) -> list[Value]:
        items: Sequence[object] = [which] if isinstance(which, str | Value | Node) else which
        if not isinstance(items, list | tuple) or not all(isinstance(item, str | Value | Node) for item in items):
            raise OptionError(f"extract: {what}: got {which!r}; expected values, nodes or names")
        return [self._value(item) for item in items]

    def _value(self, value: object) -> Value:
        """A value of ``main``, that of a node, or one by its name or that of its node."""
        if isinstance(value, Value):
            return value
        if isinstance(value, Node):
            return value.result
        known = [*self.main.inputs, *[v for node in self.main for v in node.results]]
        for candidate in known:
            if candidate.name == value:
                return candidate
        return self.main.find(value).result

    def function(self, name: str) -> IRModule:
        """A module of its own with one of the public functions, and what that calls. Arrays are shared.

        Raises:
            OptionError: there is no such function; InvalidGraphError: the module breaks a rule of the IR.
        """
        return IRModule(joining.select(self._verified(), [name], "function"), fold_constants=False, fold_batch_norms=False)

    def copy(self) -> IRModule:
        """A deep copy. Arrays are read-only and shared; replacing a weight in one copy does not affect the other.

        Raises:
            InvalidGraphError: the module breaks a rule of the IR.
        """
        copied = IRModule(self._verified(), fold_constants=False, fold_batch_norms=False)
        copied._quantization = self._quantization
        return copied

    def __copy__(self) -> IRModule:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> IRModule:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a saved module. As with `copy`, `reload` on the other side goes back to what was pickled.

        Operators of your own must be registered where it is read.
        """
        return _unpickled, (serialize.dumps(self._verified()),)

    def __getitem__(self, name: str) -> Graph:
        """The graph of that name: ``ir["main"].attrs``.

        Raises:
            KeyError: there is none; those that there are are listed.
        """
        if name not in self.graphs:
            raise KeyError(f"got {name!r}; expected one of {', '.join(self.graphs)}")
        return self.graphs[name]

    def __hash__(self) -> int:
        """Of the structure, without names and what was trained; see `forge.ir.saved.hashing`."""
        return hashing.structural_hash(self._verified())

    def __eq__(self, other: object) -> bool:
        """Equality of the structural hash; `fingerprint` compares names and contents, too."""
        return isinstance(other, IRModule) and hash(self) == hash(other)

    def __iter__(self) -> Iterator[Node]:
        """The nodes of ``main`` in topological order."""
        return iter(self.main)

    def __str__(self) -> str:
        return str(self.mod)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.input_nodes)
        outputs = ", ".join(str(v.type) for v in self.output_nodes)
        return f"<forge.IRModule ({inputs}) -> ({outputs}); {sum(self.operators.values())} operators>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self.mod))}</pre>"



def _shape(value: Value) -> tuple[Dim, ...] | None:
    return value.shape if isinstance(value.type, TensorType) else None


def _dtype(value: Value) -> str:
    return value.dtype if isinstance(value.type, TensorType) else str(value.type)



RelayModule = IRModule


def join(modules: Mapping[str, IRModule]) -> IRModule:
    """One module in which each of ``modules`` is the public function of its name, over one set of weights.

    Weights of equal contents become one. States of one name are one tensor: what ``prefill`` leaves there, ``decode`` finds.

    Raises:
        OptionError: something is not a module, or has several public functions.
        InvalidGraphError: a module breaks a rule of the IR, or they mean different tensors by one name of a state.
    """
    if not isinstance(modules, Mapping) or not modules or not all(isinstance(n, str) and n for n in modules):
        raise OptionError(f"join: got {modules!r}; expected modules by name, as in {{'prefill': a, 'decode': b}}")
    wrong = next((name for name, module in modules.items() if not isinstance(module, IRModule)), None)
    if wrong is not None:
        raise OptionError(f"join: {wrong!r}: got {type(modules[wrong]).__name__}; expected an IRModule")
    joined = joining.join({name: module._verified() for name, module in modules.items()})
    return IRModule(joined, fold_constants=False, fold_batch_norms=False)


def _unpickled(data: bytes) -> IRModule:
    return IRModule(serialize.loads(data), fold_constants=False, fold_batch_norms=False)


def _as_module(mod: Module | IRModule | str) -> Module:
    if isinstance(mod, IRModule):
        return mod.mod
    if isinstance(mod, str):
        if "{" not in mod and Path(mod).suffix:
            raise OptionError(f"IRModule: got {mod!r}, which looks like a path; expected the text of a module; use forge.load")
        return parse_module(mod)
    if not isinstance(mod, Module):
        raise InvalidGraphError(
            f"IRModule: got {type(mod).__name__}; expected an ir.Module, an IRModule or text; load models with forge.load"
        )
    return mod


for _door in formats.all_formats():
    loading.bind(IRModule, _door)

__all__ = ["IRModule", "RelayModule", "join"]
