"""Compiled models as modules of PyTorch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from forge.driver import artifact
from forge.driver import compile_module as compiled
from forge.errors import InputError, OpAttributeUnimplemented, OptionError
from forge.frontends.torch.nesting import deep_enough
from forge.frontends.torch.whole_layers import whole_layers
from forge.module import IRModule
from forge.options import OutputOptions
from forge.torch.backend import parse_options
from forge_runtime import Runtime, Session


class CompiledModule(torch.nn.Module):  # type: ignore[misc]
    """A compiled model that is called with tensors of PyTorch, and returns such, without copies; for inference only.

    Args:
        model: a runtime, or the path of an artifact. What the model keeps from call to call is kept by this module.
        structure: the arguments and results of the model that it was compiled from; None: tensors in, and one tensor or a list.

    Attributes:
        runtime: the runtime.
    """

    def __init__(self, model: Runtime | str | PathLike[str], structure: Structure | None = None) -> None:
        super().__init__()
        self.runtime = model if isinstance(model, Runtime) else Runtime(model)
        self._path = None if isinstance(model, Runtime) else fspath(model)
        self._structure = structure
        view = self.runtime.returning(torch.Tensor)
        self._run = view.session() if view.states else view
        self.eval()

    def __copy__(self) -> CompiledModule:
        """A module of the same code, with its own copy of what the model keeps."""
        found = CompiledModule(self.runtime, self._structure)
        found._path = self._path
        if isinstance(self._run, Session):
            found._run = self._run.copy()
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the path of the artifact, and what the model keeps.

        Raises:
            OptionError: the code is only in memory.
        """
        if self._path is None:
            raise OptionError(
                "CompiledModule: got code that is only in memory; expected an artifact, for a pickle: give compile_module "
                "output_path, or pickle the model and compile it where it is read")
        state = self._run.state() if isinstance(self._run, Session) else {}
        return _restored, (self._path, self._structure, state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises InputError: other arguments than those of the example. The results require no gradients."""
        if self._structure is None:
            return self._run(*args, **kwargs)
        structure = self._structure
        if structure.is_plain and not kwargs and len(args) == structure.arity and all(map(_is_tensor, args)):
            return self._run(*args)
        return structure.results(self._run(*structure.inputs(args, kwargs)))


def _restored(path: str, structure: Structure | None, state: Mapping[str, Any]) -> CompiledModule:
    found = CompiledModule(path, structure)
    if isinstance(found._run, Session):
        found._run.load_state(state)
    return found


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


class Structure:
    """The trees of arguments and results of an exported model, some of whose leaves are constants of Python.

    Attributes:
        is_plain: the model takes tensors in order, and returns one.
        arity: the number of arguments in order.

    Args:
        names: of the module's parameters that may be given in order.
    """

    def __init__(self, exported: ExportedProgram, names: Sequence[str] = ()) -> None:
        self._names = list(names)
        signature = exported.graph_signature
        inputs = [spec.arg for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
        self._constants = {k: arg.value for k, arg in enumerate(inputs) if isinstance(arg, ConstantArgument)}
        self._in_spec = exported.call_spec.in_spec
        self._out_spec = exported.call_spec.out_spec
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        self._outputs = [spec.arg for spec in signature.output_specs if spec.kind in kinds]
        args, kwargs = self._in_spec.children()
        self.arity = args.num_children
        takes_tensors = not self._constants and not kwargs.num_children and all(child.is_leaf() for child in args.children())
        self.is_plain = takes_tensors and self._out_spec.is_leaf() and not isinstance(self._outputs[0], ConstantArgument)

    def inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors among the arguments, in order.

        Raises:
            InputError: the arguments have another form than those of the example.
        """
        leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if spec != self._in_spec:
            args, kwargs = self._as_in_the_example(args, kwargs)
            leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if spec != self._in_spec:
            names = self._in_spec.child(1).context
            if set(names) != set(kwargs):
                raise InputError(f"arguments by name: got {sorted(kwargs)}; expected those of the example: {sorted(names)}")
            leaves, spec = pytree.tree_flatten((tuple(args), {name: kwargs[name] for name in names}))
        if spec != self._in_spec:
            raise InputError(f"arguments: got {spec}; expected the form of the example: {self._in_spec}")
        for number, value in self._constants.items():
            if leaves[number] != value:
                raise InputError(f"argument {number}: got {leaves[number]!r}; expected {value!r}, as in the example")
        return [leaf for number, leaf in enumerate(leaves) if number not in self._constants]

    def _as_in_the_example(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Arguments in order that the example had in order, others by name."""
        given = {**dict(zip(self._names, args)), **kwargs}
        ordered = self._names[: self.arity]
        if len(args) > len(self._names) or len(given) < len(args) + len(kwargs) or not given.keys() >= {*ordered}:
            return args, kwargs
        return [given.pop(name) for name in ordered], given

    def results(self, outputs: Any) -> Any:
        """What the model returns, of the outputs of its compiled code."""
        given = iter(outputs if isinstance(outputs, list) else [outputs])
        leaves = []
        for argument in self._outputs:
            is_constant = isinstance(argument, ConstantArgument)
            output = next(given) if not is_constant or argument.value is not None else None
            leaves.append(argument.value if is_constant else output)
        return pytree.tree_unflatten(leaves, self._out_spec)


def _names(module: torch.nn.Module) -> list[str]:
    """Of the parameters of a module that may be given in order."""
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


def compile_module(
    module: torch.nn.Module,
    example: Any,
    *,
    dynamic_shapes: Any = None,
    output_path: str | PathLike[str] | None = None,
    **options: Any,
) -> CompiledModule:
    """Compiles a module ahead of time.

    Args:
        module: in the mode (``eval``) in which it is to run.
        example: its arguments: a tuple, a dictionary by name, or one tensor.
        dynamic_shapes: as of ``torch.export.export``; None: all sizes are those of the example.
        output_path: a directory to create, where the artifact is kept; None: the code is only in memory.
        options: of ``IRModule.compile``: ``opt_level``, ``target``, ``set_bfloat16`` ...

    Returns:
        A module that takes and returns what ``module`` does.

    Raises:
        OptionError, TargetError: a bad argument; ImportModelError: torch cannot export the module; OpNotImplemented: operators
        have no converter, all listed; OpAttributeUnimplemented: the module writes to its arguments; CompileError: an operator
        cannot be compiled.
    """
    if "fallback" in options:
        raise OptionError("compile_module: fallback: expected none: an artifact has no eager parts; use torch.compile")
    settings, _ = parse_options(options, None)
    args, kwargs = ((), example) if isinstance(example, Mapping) else (example, None)
    args = args if isinstance(args, tuple | list) else (args,)
    with torch.no_grad(), whole_layers(), deep_enough(module, "compile_module"):
        exported = torch.export.export(module, tuple(args), kwargs, dynamic_shapes=dynamic_shapes)
    model = IRModule.from_torch(exported, through_onnx=False)
    if model.main.donated:
        raise OpAttributeUnimplemented(
            f"compile_module: the module writes to its arguments {list(model.main.donated)}; "
            "supported: modules that write to their buffers only; use torch.compile, or return the new values")
    output = None if output_path is None else OutputOptions(output_path=output_path)
    if output is not None:
        artifact.check(output, settings.target)
    code = compiled(model.mod, settings, output=output)
    runtime = code.runtime(num_threads=torch.get_num_threads()) if output is None else output.path
    return CompiledModule(runtime, Structure(exported, _names(module)))
