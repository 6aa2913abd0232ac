"""What the inputs of a module's methods are: ``{"forward": {"x": spec.Tensor(["batch", 8], "float32")}}``.

A specification of a module has one for each method that becomes a function, of a method one for each argument. Names in shapes
are sizes that each call chooses; one name is one size within a method. Arguments that are not listed take their defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forge import dims
from forge.dims import DimExpr
from forge.errors import OptionError
from forge.ir.types import SequenceType, TensorType, Type
from forge.nn.tracing import tensor_type

if TYPE_CHECKING:
    from forge.nn.module import Module

MODES = ("plain", "packed", "none")


class Int:
    """An integer, int64 of rank 0 in the graph. The method gets it as a size that it can compute with and use in shapes."""

    def __repr__(self) -> str:
        return "int"


class Tensor:
    """A tensor of this shape and element type.

    Raises:
        OptionError: the shape or the element type is none.
    """

    def __init__(self, shape: Sequence[int | str | DimExpr], dtype: str) -> None:
        self.type = tensor_type(shape, dtype, "spec.Tensor")

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(map(str, self.shape))}], {self.dtype!r})"


class Object:
    """What is not a tensor: ``object_type`` wraps it for the method, as ``object_type(_expr=value, _name=name)``.

    Args:
        object_type: a subclass of ``nn.Object``.
        type: of the graph; by default a sequence of float32 vectors.
    """

    def __init__(self, object_type: type, type: Type | None = None) -> None:  # noqa: A002 - what it is in the graph
        self.object_type = object_type
        self.type: Type = type or SequenceType(TensorType((dims.symbol("length"),), "float32"))

    def __repr__(self) -> str:
        return "object"


class Tuple:
    """Several arguments that the method gets as one tuple or list."""

    def __init__(self, name: str, elements: Sequence[Any]) -> None:
        self.name = name
        self.kind = list if isinstance(elements, list) else tuple
        self.elements = [argument(element, f"{name}[{k}]") for k, element in enumerate(elements)]

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.elements))
        return f"[{inside}]" if self.kind is list else f"({inside})"


Argument = Int | Tensor | Object | Tuple


def argument(given: Any, name: str) -> Argument:
    """The specification of an argument out of its short forms: ``"int"``, ``int``, a tensor, a list or tuple of them.

    Raises:
        OptionError: it is none.
    """
    if isinstance(given, Int | Tensor | Object | Tuple):
        return given
    if given is int or (isinstance(given, str) and given == "int") or given is Int:
        return Int()
    if isinstance(given, list | tuple):
        return Tuple(name, given)
    raise OptionError(f"spec: {name!r}: got {given!r}; expected spec.Tensor, 'int', spec.Object, or a list or tuple of these")


@dataclass
class MethodSpec:
    """The arguments of one method.

    Attributes:
        method: the function.
        arguments: by name, in the order of the function.
        param_mode: what becomes of parameters: inputs of their own ("plain"), the same at the end of the inputs under the names
            ``packed_params.0`` and so on ("packed"), or nothing ("none": the method may use parameters with data only).
        effect_mode: "none": the method may use no effect.
    """

    method: Callable[..., Any]
    arguments: dict[str, Argument] = field(default_factory=dict)
    param_mode: str = "plain"
    effect_mode: str = "plain"

    @staticmethod
    def from_raw(given: Any, method: Callable[..., Any], where: str = "spec") -> MethodSpec:
        """Of a specification, or arguments by name; the key ``"$"`` sets ``param_mode`` and ``effect_mode``.

        Raises:
            OptionError: a name is not an argument of the method, an argument without default is missing, or a mode is unknown.
        """
        if isinstance(given, MethodSpec):
            return given
        if not isinstance(given, Mapping):
            raise OptionError(f"{where}: got {type(given).__name__}; expected arguments by name, as in {{'x': spec.Tensor(...)}}")
        arguments = {name: value for name, value in given.items() if name != "$"}
        signature = inspect.signature(method).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.values())
        names = [name for name, p in signature.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        unknown = [name for name in arguments if name not in names and not takes_any]
        if unknown:
            raise OptionError(f"{where}: {unknown[0]!r} is not an argument; expected some of: {', '.join(names) or 'none'}")
        missing = [name for name in names if name not in arguments and signature[name].default is inspect.Parameter.empty]
        if missing:
            raise OptionError(f"{where}: argument {missing[0]!r} is missing; expected all of: {', '.join(names)}")
        order = [*(n for n in names if n in arguments), *(n for n in arguments if n not in names)]
        return MethodSpec(method, {name: argument(arguments[name], name) for name in order}, **_modes(given.get("$", {}), where))

    @staticmethod
    def from_torch(args: Sequence[Any], method: Callable[..., Any]) -> MethodSpec:
        """Of example arguments: tensors of torch, integers, lists and tuples of these."""
        names = list(inspect.signature(method).parameters)
        if len(args) > len(names):
            raise OptionError(f"MethodSpec.from_torch: got {len(args)} arguments; expected at most {len(names)}")
        return MethodSpec(method, {name: _of_example(value, name) for name, value in zip(names, args)})


def _modes(given: Any, where: str) -> dict[str, str]:
    if not isinstance(given, Mapping) or not set(given) <= {"param_mode", "effect_mode"}:
        raise OptionError(f"{where}: '$': got {given!r}; expected 'param_mode' and 'effect_mode'")
    wrong = next((mode for mode in given.values() if mode not in MODES), None)
    if wrong is not None:
        raise OptionError(f"{where}: '$': got {wrong!r}; expected one of: {', '.join(MODES)}")
    return dict(given)


def _of_example(value: Any, name: str) -> Argument:
    if isinstance(value, int) and not isinstance(value, bool):
        return Int()
    if isinstance(value, list | tuple):
        return Tuple(name, type(value)(_of_example(part, name) for part in value))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return Tensor(tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch."))
    raise OptionError(f"MethodSpec.from_torch: {name!r}: got {type(value).__name__}; expected a tensor or an integer")


@dataclass
class ModuleSpec:
    """Methods of a module by name, with their arguments."""

    module: Module
    methods: dict[str, MethodSpec]

    @staticmethod
    def from_raw(given: Any, module: Module) -> ModuleSpec:
        """Of specifications of methods by name; arguments by name are those of ``forward``.

        Raises:
            OptionError: a name is not a method, or what it has does not fit the method.
        """
        if isinstance(given, ModuleSpec):
            return given
        if not isinstance(given, Mapping) or not given:
            raise OptionError(f"spec: got {given!r}; expected methods by name, as in {{'forward': {{'x': spec.Tensor(...)}}}}")
        if not any(isinstance(value, Mapping | MethodSpec) for name, value in given.items() if name != "$"):
            given = {"forward": given}
        methods = {}
        for name, arguments in given.items():
            method = getattr(module, name, None)
            if not callable(method):
                raise OptionError(f"spec: {name!r} is not a method of {type(module).__name__}")
            methods[name] = MethodSpec.from_raw(arguments, method, f"spec of {type(module).__name__}.{name}")
        return ModuleSpec(module, methods)


ModuleSpecType = ModuleSpec | Mapping[str, Any]
