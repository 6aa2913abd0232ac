"""``IRModule``: the model as users hold it. Load it, look at it, edit it, compile it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import files
from forge.errors import ForgeError, ImportModelError, InvalidGraphError, OptionError
from forge.ir import retype
from forge.ir.edits.extract import extract
from forge.ir.functions import joining
from forge.ir.functions.reference import Reference
from forge.ir.graph import Module
from forge.ir.nodes import Node, Value
from forge.ir.saved import serialize
from forge.ir.saved.statistics import Calibration
from forge.ir.text.parser import parse_module
from forge.ir.verifier import verify
from forge.module.quantization import Quantization
from forge.options import CompileOptions, OutputOptions, takes_options
from forge.passes import fold_batch_norm, fold_constants, inline_calls
from forge.target import TargetLike

if TYPE_CHECKING:
    import onnx

    from forge.driver.tuner import Tuned

Some = Value | Node | str | Sequence[Value | Node | str]


class IRModule(Quantization):
    """A model: graphs in Forge's IR and the weights that are not frozen into them.

    Args:
        mod: an ``ir.Module``, text of one, or another ``IRModule``; it is copied, arrays are shared.
        params: values for inputs of ``main``, by name: weights that stay outside the graph.
        inline_partitions: inline every function that a public one calls, and drop it.
        fold_constants: evaluate what depends on constants only, but for weights of at most 8 bits, which stay so.
        fold_batch_norms: fold batch normalisations into the convolution or dense layer before them. Weights in ``params`` that
            go into one become constants, and leave ``params`` unless something else reads them.

    Raises:
        OptionError: an argument of the wrong kind, or a path; ParseError: ``mod`` is text that cannot be parsed.
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
        retype.sizes_of_params(self.main)

    def _simplify(self, inline: bool, constants: bool, batch_norms: bool) -> None:
        options = CompileOptions()
        if inline:
            self._inline()
        for graph in self.graphs.values():
            if constants:
                fold_constants.run_at_load(graph, options)
            if batch_norms:
                fold_batch_norm.run_with_params(graph, options)

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
        *,
        unify_dimensions: bool = True,
    ) -> IRModule:
        """Loads an ONNX model.

        Args:
            model: a path, the bytes of a file, or a ``ModelProto``. External data is read from the path's folder.
            shape: shapes of inputs by name, in place of the model's; entries are integers, None to keep, or texts: a label that
                the model gives a dimension, else an expression of symbols (``2*n``). An input that is an initialiser, too, is one
                that calls give if it is named here; else it has the initialiser's contents.
            dtype: element types of inputs by name, in place of the model's; a single one is for those that the model leaves open,
                and refused where it contradicts all that the model says.
            opset: read the default domain as this opset instead of what the model declares.
            freeze_params: initialisers become constants; False keeps them as inputs after the model's own, with their values in
                ``IRModule.params`` (small integer vectors, which steer operators, are constants all the same).
            convert_config: options of converters, by name. ``use_nt_batch_matmul`` (default True): products of rank 3 are
                ``nn.batch_matmul`` with a transposed right side; they are compiled alike. ``drop_zipmap`` (default False): no
                warning for ZipMap, whose results, maps, which compiled models lack, are the tensors of scores instead.
            unify_dimensions: dimensions of inputs that the model gives one name have one size; False for models that give it to
                unequal ones, where each gets a name of its own (``n``, ``n_1``).
            export_node_renamed_model_path: write the model with a name for every node to this path, and its external data
                next to it.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: the model cannot be read, or contradicts an argument;
            OpNotImplemented: it uses operators without a converter, all listed.
        """
        from forge.frontends.onnx.importer import import_model

        module = import_model(model, shape, dtype, opset, freeze_params, convert_config, export_node_renamed_model_path,
                              unify_dimensions=unify_dimensions)
        verify(module)
        loaded = cls.__new__(cls)
        loaded._take(module, {}, inline=False, constants=freeze_params, batch_norms=freeze_params)
        return loaded

    @classmethod
    def from_torch(
        cls,
        script_module: Any,
        input_infos: Any = None,
        custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
        default_type: str = "float32",
        use_parser_friendly_name: bool = False,
        keep_quantized_weight: bool = False,
        *,
        default_dtype: str | None = None,
        dynamic_shapes: Any = None,
        through_onnx: bool | None = None,
    ) -> IRModule:
        """Loads a PyTorch model.

        Args:
            script_module: a trace (``torch.jit.trace``) or another ScriptModule, an ``nn.Module``, an ``ExportedProgram``, a
                ``torch.fx.GraphModule``, or the path of a ``.pt2`` file.
            input_infos: the inputs in order: ``(name, shape)``, ``(name, (shape, dtype))`` or ``(name, tensor)``; tuples of these
                stand for tuples of tensors, ``x_0`` and so on. The names are those of the module's inputs. Texts in shapes are
                dynamic dimensions, equal ones equal sizes; None is one without a name. A module may also be given example
                tensors only, or a dictionary by the names of its arguments. None: as the trace or the exported program says.
            custom_convert_map: converters of the user, which win over Forge's: ``{"aten::relu": f(inputs, input_types)}`` for
                all overloads of an operator, ``{"relu.default": f(node, importer)}`` for one. They give expressions.
            default_type: the element type of inputs of which nothing says one; ``default_dtype`` is the same.
            use_parser_friendly_name: names of weights have ``_`` in the place of ``.``.
            keep_quantized_weight: weights that torch has quantised stay integers in any case: float32 copies would be larger, and
                be rounded to the same integers later. With True, biases of layers whose operand has a known scale are int32, in
                steps of the product of the scales of operand and weight; else they are float32.
            dynamic_shapes: as of ``torch.export.export``, for a module with example tensors or a trace.
            through_onnx: what cannot be converted is exported to ONNX by torch, and loaded from there, with a warning; False:
                never; True: at once.

        Raises:
            OptionError: an argument of the wrong kind; ImportModelError: torch cannot export the model, or it contradicts an
            argument; OpNotImplemented: it uses operators without a converter, all listed, and the way through ONNX failed or
            is switched off; ConverterError: a converter of the user failed.
        """
        from forge.frontends.torch.entry import from_torch as load

        module = load(
            script_module, input_infos, custom_convert_map, default_type, use_parser_friendly_name, keep_quantized_weight,
            default_dtype=default_dtype, dynamic_shapes=dynamic_shapes, through_onnx=through_onnx)
        verify(module)
        loaded = cls.__new__(cls)
        loaded._take(module, {}, inline=False, constants=True, batch_norms=True)
        return loaded

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
        self._module.calibration, self._quantisation = Calibration(), None

    def extract(self, outputs: Some, inputs: Some = ()) -> IRModule:
        """A module that computes some values of ``main`` from others; what else it needs stays an input.

        Args:
            outputs, inputs: values, nodes with one result, or names of such; one, or a sequence.

        Raises:
            OptionError: an argument is neither; InvalidGraphError: one is not of the graph.
        """
        graph = extract(self._verified().main, self._values("outputs", outputs), self._values("inputs", inputs))
        module = Module(graph, {k: a for k, a in self.params.items() if k in {v.name for v in graph.inputs}})
        module.graphs.update({name: g for name, g in self.graphs.items() if name not in self._module.public})
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
        copied._quantisation = self._quantisation
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

    def get_inference_function(self, target: TargetLike = "llvm") -> Callable[..., Any]:
        """A callable: arrays in by position, by name, or as one list, tuple or dictionary; an array or a list of arrays out.

        ``target="reference"`` interprets the graph with NumPy; any other target compiles in memory. Both are of the module as it
        is now: later changes do not count. States are kept from call to call. Both raise InputError where the inputs do not fit.

        Raises:
            InvalidGraphError: the module breaks a rule of the IR; TargetError: a bad target; CompileError: an operator cannot be
            compiled.
        """
        if target == "reference":
            return Reference(self._verified().copy())
        from forge.driver import check_options, compile_module

        runtime = compile_module(self._module, check_options(target)).runtime()
        return runtime.session() if runtime.states else runtime

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
        weights: str | None = None,
        functions: Sequence[str] | None = None,
        exact: bool = False,
        check_indices: bool = True,
        typical: Mapping[str, int] | Sequence[str] = (),
    ) -> None:
        """Compiles to a directory that holds ``modelLibrary.so``, ready to deploy.

        An option that is not given follows the ``forge.PassContext`` around the call, if there is one.

        Args:
            {options}
            functions: names of the public functions to compile; None: all, over one set of weights.

        Raises:
            ValueError: a bad argument, or ``output_path`` exists and ``force_overwrite`` is off.
            InvalidGraphError: the module breaks a rule of the IR.
            CompileError: an operator cannot be compiled; ToolchainError: no C compiler.
        """
        from forge.driver import artifact, check_options, compile_module

        output = OutputOptions(
            output_path=output_path, export_relay=export_relay, export_metadata=export_metadata, force_overwrite=force_overwrite,
            uuid=uuid, encrypt_password=encrypt_password, weights=weights)
        options = check_options(
            target, host=host, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, channel_layout=set_channel_layout,
            winograd=winograd, exact=exact, check_indices=check_indices, typical=typical, tuned=tuned)
        artifact.check(output, options.target)
        module = self._module if functions is None else joining.select(self._verified(), functions, "compile: functions")
        compile_module(module, options, output=output)

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

        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise OptionError(f"tune: seconds: got {seconds!r}; expected a number")
        if inputs is not None and (not isinstance(inputs, Mapping) or not all(n in inputs for n in self.input_names)):
            got = f"names {', '.join(map(str, inputs))}" if isinstance(inputs, Mapping) else repr(inputs)
            raise OptionError(f"tune: inputs: got {got}; expected arrays by name, for all of: {', '.join(self.input_names)}")
        self._verified()
        if inputs is None:
            inputs = feeds.random_inputs(feeds.specs_of(self.input_nodes), {})
        options = check_options(target, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, winograd=winograd)
        found = tuner.tune_module(self._module, inputs, options, seconds=seconds)
        tuning.store(found.records)
        return found

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
        the runtime's; so are random numbers. States and donated inputs are plain inputs and outputs there.

        Args:
            path: the file to write; it appears whole or not at all. None: the model is returned, with its weights.
            opset: version of the operator set, 18 to 26; None: 21, which runtimes know best, or a later one that is needed; 20
                where data are rounded to int8, as onnxruntime fails on some such models from 21 on.
            external_bytes: weights of at least this size go to ``PATH.data``; None: none do, unless the model exceeds 2 GiB.

        Raises:
            OpNotImplemented: nodes cannot be written as ONNX; the message lists all of them.
            OptionError: an argument is out of range, or the module has several functions.
            OutputPathError: the file cannot be written.
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
    """Reads a module that ``IRModule.save`` wrote, or the text form (``.relay``, ``.txt``) with the weights next to it.

    Raises:
        OptionError: ``path`` is none.
        ImportModelError: the file is missing, damaged, of a newer format, or one that an importer reads; text lacks its weights;
            an operator is not known.
    """
    if not isinstance(path, str | PathLike) or not str(path):
        raise OptionError(f"load: got {path!r}; expected a path; from_onnx takes models in memory")
    _check_suffix("load", path, ImportModelError)
    return IRModule(serialize.load(path), fold_constants=False, fold_batch_norms=False)


def join(modules: Mapping[str, IRModule]) -> IRModule:
    """One module in which each of ``modules`` is the public function of its name, over one set of weights.

    Weights of equal contents become one. States of one name are one tensor: what ``prefill`` leaves there, ``decode`` finds.

    Raises:
        OptionError: something is no module, or has several public functions.
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


def _check_suffix(where: str, path: str | PathLike[str], kind: type[ForgeError]) -> None:
    """Raises an error for the path of a file that an importer reads, which it names."""
    from forge.frontends.support import format_of

    found = format_of(Path(path))
    if found is not None:
        raise kind(f"{where}: {path}: is a model to import; load it with forge.from_{found.registry.name}")


def _as_module(mod: Module | IRModule | str) -> Module:
    if isinstance(mod, IRModule):
        return mod.mod
    if isinstance(mod, str):
        if "{" not in mod and Path(mod).suffix:
            _check_suffix("IRModule", mod, OptionError)
            raise OptionError(f"IRModule: got {mod!r}, which looks like a path; expected the text of a module; use forge.load")
        return parse_module(mod)
    if not isinstance(mod, Module):
        raise InvalidGraphError(
            f"IRModule: got {type(mod).__name__}; expected an ir.Module, an IRModule or text; load models with forge.from_onnx"
        )
    return mod


__all__ = ["IRModule", "RelayModule", "join", "load"]
