"""``IRModule``: the model as users hold it. Load it, look at it, edit it, compile it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, files
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError, OptionError
from forge.ir import hashing, retype, serialize
from forge.ir.interp import Reference
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.parser import parse_module
from forge.ir.rebatch import check_batch, replace_batch
from forge.ir.rewrite import Editor, Rule, apply, edit, extract
from forge.ir.types import TensorType
from forge.ir.verifier import verify
from forge.options import OutputOptions, takes_options
from forge.passes import fold_batch_norm, fold_constants, inline_calls, partition, partition_for_tensorrt
from forge.passes.base import PassContext
from forge.target import Target, TargetLike

if TYPE_CHECKING:
    import onnx

    from forge.driver.tuner import Tuned
    from forge.view import Plot

Some = Value | Node | str | Sequence[Value | Node | str]
_DEPRECATED = "IRModule.{} is deprecated and will be removed in a future release; {}"


class IRModule:
    """A model: graphs in Forge's IR and the weights that are not frozen into them.

    Args:
        mod: an ``ir.Module``, text of one, or another ``IRModule``; it is copied, arrays are shared.
        params: values for inputs of ``main``, by name: weights that stay outside the graph.
        inline_partitions: inline every function that ``main`` calls, and drop all functions.
        fold_constants: evaluate what depends on constants only.
        fold_batch_norms: fold batch normalisations into the convolution or dense layer before them. Weights in ``params`` that
            go into one become constants, and leave ``params`` unless something else reads them.

    Raises:
        OptionError: an argument of the wrong kind; ParseError: ``mod`` is text that cannot be parsed.
        InvalidGraphError: the module breaks a rule of the IR, or ``params`` names no input or has the wrong type.
    """

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
        """Makes ``module``, which was verified and belongs to nobody else, that of this object."""
        self._module = module
        self._bind(params)
        self._simplify(inline, constants, batch_norms)
        for graph in self.graphs.values():
            retype.number_symbols(graph)
        self._original = self._module.copy()

    def _bind(self, params: Mapping[str, np.ndarray]) -> None:
        if not isinstance(params, Mapping):
            raise OptionError(
                f"IRModule: params: got {type(params).__name__}; expected arrays by name of input, as in {{'weight': array}}")
        self._module.params.update(params)
        retype.sizes_of_params(self._module)

    def _simplify(self, inline: bool, constants: bool, batch_norms: bool) -> None:
        context = PassContext(Target.parse("llvm"))
        if inline:
            self._inline()
        for graph in self.graphs.values():
            if constants:
                fold_constants.run(graph, context)
            if batch_norms and graph is self.main:
                fold_batch_norm.run_with_params(self._module, context)
            elif batch_norms:
                fold_batch_norm.run(graph, context)

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
        """All graphs by name, ``main`` first."""
        return self._module.graphs

    @property
    def main(self) -> Graph:
        return self._module.main

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
        """The model's inputs; those that ``params`` binds are left out.

        They answer what nodes are asked, so that a walk may begin here: ``op`` is "input", ``succ`` lists the nodes that use one.
        """
        return [v for v in self.main.inputs if v.name not in self.params]

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
            raise InvalidGraphError("output_node: no node produces the first output; expected an output that is no input")
        return producer

    @property
    def output_count(self) -> int:
        return len(self.main.outputs)

    @property
    def output_names(self) -> list[str]:
        return self.main.output_names

    @property
    def output_shapes(self) -> list[tuple[Dim, ...] | None]:
        """As ``input_shapes``."""
        return [_shape(v) for v in self.main.outputs]

    @property
    def output_dtypes(self) -> list[str]:
        """As ``input_dtypes``."""
        return [_dtype(v) for v in self.main.outputs]

    @property
    def is_quantized(self) -> bool:
        """Whether the model holds quantised operators."""
        return any(n.op.startswith("qnn.") for g in self.graphs.values() for n in g.walk())

    @property
    def is_tensorrt(self) -> bool:
        """Whether the model is partitioned for TensorRT: a function is marked for it."""
        marks = [graph.attributes.get(partition.COMPILER) for graph in self.graphs.values()]
        return partition_for_tensorrt.BACKEND in marks

    @property
    def fingerprint(self) -> str:
        """A digest of structure, names and contents: equal for identical models, in every process."""
        return hashing.fingerprint(self._verified())

    def __hash__(self) -> int:
        """Of the structure, without names and what was trained; see `forge.ir.hashing`."""
        return hashing.structural_hash(self._verified())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IRModule) and hash(self) == hash(other)

    def __iter__(self) -> Iterator[Node]:
        """The nodes of ``main`` in topological order."""
        return iter(self.main)

    def __str__(self) -> str:
        return str(self.mod)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.input_nodes)
        outputs = ", ".join(str(v.type) for v in self.main.outputs)
        return f"<forge.IRModule ({inputs}) -> ({outputs}); {sum(self.operators.values())} operators>"

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self.mod))}</pre>"

    @classmethod
    def from_onnx(
        cls,
        model: str | PathLike[str] | bytes | onnx.ModelProto,
        shape: Mapping[str, Any] | None = None,
        dtype: str | Mapping[str, str] = "float32",
        opset: int | None = None,
        freeze_params: bool = True,
        convert_config: Mapping[str, Any] | None = None,
        export_node_renamed_model_path: str | PathLike[str] | None = None,
    ) -> IRModule:
        """Loads an ONNX model.

        Args:
            model: a path, the bytes of a file, or a ``ModelProto``.
            shape: shapes of inputs by name, in place of the model's; entries are integers, None to keep, or texts: a label that
                the model gives a dimension, else an expression of symbols.
            dtype: element types of inputs by name, in place of the model's; a single one is for those that the model leaves open.
            opset: read the default domain as this opset instead of what the model declares.
            freeze_params: initialisers become constants; False keeps them as inputs, with their values in ``IRModule.params``.
            convert_config: options of converters, by name: ``use_nt_batch_matmul`` (default True) writes products of rank 3 as
                ``nn.batch_matmul`` with a transposed right side; they are compiled alike.
            export_node_renamed_model_path: write the model with a name for every node to this path, and its external data
                beside it.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, or contradicts an argument;
            OpNotImplemented: it uses operators without a converter, all listed.
        """
        from forge.frontends.onnx.importer import import_model

        module = import_model(
            model,
            shape=shape,
            dtype=dtype,
            opset=opset,
            freeze_params=freeze_params,
            convert_config=convert_config,
            export_node_renamed_model_path=export_node_renamed_model_path,
        )
        verify(module)
        loaded = cls.__new__(cls)
        loaded._take(module, {}, inline=False, constants=freeze_params, batch_norms=freeze_params)
        return loaded

    def reload(self) -> None:
        """Takes back every change since the module was made."""
        self._module = self._original.copy()

    def edit(self, graph: str = "main") -> AbstractContextManager[Editor]:
        """Edits of one graph that all happen or none: ``with ir.edit() as e: e.rename(node, "stem")``.

        The editor inserts, replaces, removes, renames and rewires nodes, sets attributes, data and outputs, and grafts other
        graphs. At the end of the block order and types are restored and the graph is verified; if that fails, or the block
        raises, the graph is as it was before.

        Raises:
            InvalidGraphError: there is no such graph, or the edited one breaks a rule.
        """
        return edit(self._graph(graph), self._module)

    def rewrite(self, *rules: Rule, graph: str = "main") -> int:
        """Applies rules (see ``forge.ir.rewrite``) until nothing matches; returns how often one did.

        Raises:
            InvalidGraphError: there is no such graph, or a rule breaks it; it is unchanged then.
        """
        wrong = [rule for rule in rules if not isinstance(rule, Rule)]
        if wrong:
            raise OptionError(f"rewrite: got {wrong[0]!r}; expected a Rule (forge.ir.rewrite)")
        return apply(self._graph(graph), rules, self._module)

    def extract(self, outputs: Some, inputs: Some = ()) -> IRModule:
        """A module that computes some values of ``main`` from others; what else it needs stays an input.

        Args:
            outputs, inputs: values, nodes with one result, or names of such; one, or a sequence.

        Raises:
            OptionError: an argument is neither; InvalidGraphError: one is not of the graph.
        """
        graph = extract(self._verified().main, self._values("outputs", outputs), self._values("inputs", inputs))
        module = Module(graph, {k: a for k, a in self.params.items() if k in {v.name for v in graph.inputs}})
        module.graphs.update({name: g for name, g in self.graphs.items() if name != "main"})
        return IRModule(module, fold_constants=False, fold_batch_norms=False)

    def _graph(self, name: str) -> Graph:
        if not isinstance(name, str) or name not in self.graphs:
            raise InvalidGraphError(f"graph {name!r}: does not exist; expected one of: {', '.join(self.graphs)}")
        return self.graphs[name]

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

    def copy(self) -> IRModule:
        """A deep copy. Arrays are read-only and shared; replacing a weight in one copy does not affect the other.

        Raises:
            InvalidGraphError: the module breaks a rule of the IR.
        """
        return IRModule(self._verified(), fold_constants=False, fold_batch_norms=False)

    def __copy__(self) -> IRModule:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> IRModule:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a saved module. As with `copy`, `reload` on the other side goes back to what was pickled.

        Operators of your own must be registered where it is read.
        """
        return _unpickled, (serialize.dumps(self._verified()),)

    def set_batch_size(self, batch_size: int) -> None:
        """Sets the first dimension of every input that has the batch dimension of the first input. In place.

        In a model made for one batch size, sizes are rewritten so that every element is computed as before. In a model with a
        symbolic batch, the symbol is replaced. Functions of the module are changed likewise.

        Raises:
            ValueError: ``batch_size`` is not a positive integer, the model fixes its batch, or it combines elements of the batch
                (a reduction over them); the message names the node, and the module is as before. A model that was made for one
                batch size is refused too where it moves elements, or where an operator may combine them.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"set_batch_size: got {batch_size!r}; expected a positive integer")
        inputs = [v for v in self.input_nodes if isinstance(v.type, TensorType) and v.rank > 0]
        if not inputs:
            raise ValueError("set_batch_size: the model has no input with a dimension")
        self._verified()
        old, new = inputs[0].shape[0], int(batch_size)
        if isinstance(old, DimExpr):
            check_batch(self._module, inputs, old)
            changed = retype.substitute_symbols(self._module, _solve(old, new))
        else:
            changed = replace_batch(self._module, inputs, old, new)
        verify(changed)
        self._module = changed

    def partition(
        self, backend: str, supported: Callable[[Node], bool],
        keep: Callable[[Sequence[Node], Sequence[Value]], bool] = lambda nodes, inputs: True,
    ) -> int:
        """Moves what ``backend`` can run out of ``main`` into functions, in place; returns how many.

        A function holds a largest connected part of the graph that can run as one. Models with functions compile and run as
        before: every function through Forge's own code.

        Args:
            backend: name of the functions and their attribute ``Compiler``.
            supported: whether the backend can run a node. Constants go with their users; control flow stays.
            keep: whether a part, given by its nodes and the values it reads, becomes a function.

        Raises:
            InvalidGraphError: ``main`` breaks a rule of the IR.
        """
        for name, function in (("supported", supported), ("keep", keep)):
            if not callable(function):
                raise OptionError(f"partition: {name}: got {function!r}; expected a function")
        return self._edited(lambda module: partition.run(module, backend, supported, keep))

    def partition_for_tensorrt(
        self, remove_stacks: bool = True, simplify_batch_matmul: bool = True, simplify_scalar_add: bool = True,
        remove_no_mac_subgraphs: bool = True,
    ) -> None:
        """Moves what TensorRT can run out of ``main`` into functions, in place; see `partition`. Deprecated.

        Args:
            remove_stacks: write ``stack``, which TensorRT lacks, as a concatenation.
            simplify_batch_matmul: write batched products by one constant matrix as ``nn.dense``.
            simplify_scalar_add: take additions of scalars, too, as tensors of the other operand's rank.
            remove_no_mac_subgraphs: leave parts in ``main`` that neither multiply and accumulate nor reduce.

        Raises:
            OptionError: a flag is no bool; InvalidGraphError: ``main`` breaks a rule of the IR.
        """
        warnings.warn(_DEPRECATED.format("partition_for_tensorrt", "IRModule.partition, which takes any backend, stays"),
                      DeprecationWarning, stacklevel=2)
        self._edited(lambda module: partition_for_tensorrt.run(
            module, remove_stacks, simplify_batch_matmul, simplify_scalar_add, remove_no_mac_subgraphs))

    def inline_partitions(self) -> None:
        """Puts the bodies of all functions back into ``main``, in place; drops the functions. Deprecated.

        It undoes `partition` and `partition_for_tensorrt`: the module equals what it was, names included, but for stacks and
        batched products that the latter had written in another way.
        """
        warnings.warn(_DEPRECATED.format("inline_partitions", "IRModule(ir, inline_partitions=True) makes one without functions"),
                      DeprecationWarning, stacklevel=2)
        self._inline()

    def _inline(self) -> None:
        def inline(module: Module) -> int:
            count = inline_calls.run(module.main, module)
            module.graphs = {"main": module.main}
            return count

        self._edited(inline)

    def _edited(self, edit: Callable[[Module], int]) -> int:
        """Edits a copy, which takes the module's place if nothing was raised."""
        changed = self._verified().copy()
        count = edit(changed)
        self._module = changed
        return count

    def get_inference_function(self, target: TargetLike = "llvm") -> Callable[..., Any]:
        """A callable: arrays in by position, by name, or as one list, tuple or dictionary; an array or a list of arrays out.

        ``target="reference"`` interprets the graph with NumPy; any other target compiles in memory. Both are of the module as it
        is now: later changes do not count. Both raise InputError where the inputs do not fit.

        Raises:
            InvalidGraphError: the module breaks a rule of the IR; TargetError: a bad target; CompileError: an operator cannot be
            compiled.
        """
        if target == "reference":
            return Reference(self._verified().copy())
        from forge.driver import check_options, compile_module

        return compile_module(self._module, check_options(target)).runtime()

    @takes_options
    def compile(
        self,
        target: TargetLike = "llvm",
        host: TargetLike | None = None,
        output_path: str | PathLike[str] | None = "./compile_output",
        opt_level: int = 3,
        set_float16: bool = False,
        set_channel_layout: str | None = None,
        export_relay: bool = False,
        export_metadata: bool = False,
        force_overwrite: bool = False,
        uuid: str | None = None,
        encrypt_password: str | None = None,
        winograd: bool = True,
        set_bfloat16: bool = False,
        tuned: bool = False,
    ) -> None:
        """Compiles to a directory that holds ``modelLibrary.so``, ready to deploy.

        An option that is not given follows the ``forge.PassContext`` around the call, if there is one.

        Args:
            {options}

        Raises:
            ValueError: a bad argument, or ``output_path`` exists and ``force_overwrite`` is off.
            InvalidGraphError: the module breaks a rule of the IR.
            CompileError: an operator cannot be compiled; ToolchainError: no C compiler.
        """
        from forge.driver import artifact, check_options, compile_module

        output = OutputOptions(
            output_path=output_path, export_relay=export_relay, export_metadata=export_metadata, force_overwrite=force_overwrite,
            uuid=uuid, encrypt_password=encrypt_password)
        artifact.check(output)
        options = check_options(
            target, host=host, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, channel_layout=set_channel_layout,
            winograd=winograd, tuned=tuned)
        compile_module(self._module, options, output=output)

    @takes_options
    def tune(
        self,
        seconds: float = 60,
        inputs: Mapping[str, np.ndarray] | None = None,
        target: TargetLike = "llvm",
        opt_level: int = 3,
        set_float16: bool = False,
        set_bfloat16: bool = False,
        winograd: bool = True,
    ) -> Tuned:
        """Measures alternatives for the model's kernels on this machine and keeps what is faster for ``compile(tuned=True)``.

        Args:
            seconds: when to stop looking; the last comparison comes after that.
            inputs: arrays by name; None: made up, with symbolic dimensions of 1.
            target: must run here; its ``num-cores`` is the number of threads.
            opt_level, set_float16, set_bfloat16, winograd: as of `compile`.

        Returns:
            What was found, with times of the whole model before and after.

        Raises:
            OptionError: a bad argument, or an input that cannot be made up; InvalidGraphError: the module breaks a rule of the
            IR; CompileError: an operator cannot be compiled.
        """
        from forge.driver import check_options, feeds, tuner, tuning
        from forge.lowering.objects import described

        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise OptionError(f"tune: seconds: got {seconds!r}; expected a number")
        if inputs is not None and (not isinstance(inputs, Mapping) or not all(n in inputs for n in self.input_names)):
            got = f"names {', '.join(map(str, inputs))}" if isinstance(inputs, Mapping) else repr(inputs)
            raise OptionError(f"tune: inputs: got {got}; expected arrays by name, for all of: {', '.join(self.input_names)}")
        self._verified()
        if inputs is None:
            specs = [(v.name, *described(v)) for v in self.input_nodes]
            inputs = feeds.random_inputs([(name, dtype, shape or ()) for name, dtype, shape in specs], {})
        options = check_options(target, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, winograd=winograd)
        found = tuner.tune_module(self._module, inputs, options, seconds=seconds)
        tuning.store(found.records)
        return found

    def plot(self, graph: str = "main", max_nodes: int = 200) -> Plot:
        """A picture of one graph, which notebooks show; ``plot().save("graph.svg")`` writes it.

        Groups stay closed where more than ``max_nodes`` boxes would be seen. ``forge view`` makes a page to search and open.

        Raises:
            OptionError: there is no such graph, or its outermost boxes alone are more than ``max_nodes``.
        """
        from forge.view import plot

        return plot(self._module, graph, max_nodes)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the module, to be read back by ``forge.load``: text and weights in one file (``.forge``).

        Where the path ends in ``.relay``, it is a file of text, with the weights in ``PATH.safetensors``.

        Raises:
            OptionError: it is not a path; OutputPathError: it cannot be written.
            InvalidGraphError: the module breaks a rule of the IR.
        """
        with files.writing("save", path):
            serialize.save(self._verified(), path)

    def to_onnx(self, path: str | PathLike[str] | None = None, opset: int | None = None, external_bytes: int | None = None,
                ) -> onnx.ModelProto | None:
        """Writes the model as ONNX, functions inlined; names of inputs, outputs, nodes and weights are kept.

        Where ONNX leaves a result undefined (indices out of range, floats too large for the integer that they are cast to), it is
        the runtime's; so are random numbers.

        Args:
            path: the file to write; it appears whole or not at all. None: the model is returned, with its weights.
            opset: version of the operator set, 18 to 26; None: 21, which runtimes know best, or a later one that is needed.
            external_bytes: weights of at least so many bytes go to ``PATH.data``; None: none do, unless the model exceeds 2 GiB.

        Raises:
            OpNotImplemented: nodes cannot be written as ONNX; the message lists all of them.
            OptionError: an argument is out of range; OutputPathError: the file cannot be written.
            InvalidGraphError: the module breaks a rule of the IR.
        """
        from forge.exporters.onnx import export_model, save_model, with_weights

        module = self._verified().copy()
        inline_calls.run(module.main, module)
        model, document = export_model(module, opset)
        if path is None:
            return with_weights(model, document.tensors)
        with files.writing("to_onnx", path):
            save_model(model, document.tensors, path, external_bytes)
        return None


RelayModule = IRModule


def load(path: str | PathLike[str]) -> IRModule:
    """Reads a module that ``IRModule.save`` wrote, or the text form (``.relay``, ``.txt``) with the weights beside it.

    Raises:
        OptionError: ``path`` is none.
        ImportModelError: the file is missing, damaged or of a newer format; text lacks its weights; an operator is not known.
    """
    if not isinstance(path, str | PathLike) or not str(path):
        raise OptionError(f"load: got {path!r}; expected a path; from_onnx takes models in memory")
    return IRModule(serialize.load(path), fold_constants=False, fold_batch_norms=False)


def _unpickled(data: bytes) -> IRModule:
    return IRModule(serialize.loads(data), fold_constants=False, fold_batch_norms=False)


def _shape(value: Value) -> tuple[Dim, ...] | None:
    return value.shape if isinstance(value.type, TensorType) else None


def _dtype(value: Value) -> str:
    return value.dtype if isinstance(value.type, TensorType) else str(value.type)


def _as_module(mod: Module | IRModule | str) -> Module:
    if isinstance(mod, IRModule):
        return mod.mod
    if isinstance(mod, str):
        return parse_module(mod)
    if not isinstance(mod, Module):
        raise InvalidGraphError(
            f"IRModule: got {type(mod).__name__}; expected an ir.Module, an IRModule or text; load models with forge.from_onnx"
        )
    return mod


def _solve(dim: DimExpr, size: int) -> dict[str, Dim]:
    solution = dims.solve(dim, size)
    if solution is None:
        raise ValueError(f"set_batch_size: got {size}; the batch dimension is {dim}; expected a size that it can have")
    return dict([solution])


__all__ = ["IRModule", "RelayModule", "load"]
