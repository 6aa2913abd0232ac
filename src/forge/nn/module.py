"""Modules: what models are made of. A `Module` has parameters, other modules and effects as attributes, and ``forward``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from forge.errors import OptionError
from forge.module import IRModule
from forge.nn.effects import Effect
from forge.nn.subroutine import SubroutineMixin
from forge.nn.tensor import Parameter
from forge.nn.tracing import current

if TYPE_CHECKING:
    from forge.nn.jit import CompiledModule
    from forge.nn.spec import ModuleSpecType

P = TypeVar("P")


class Module(SubroutineMixin):
    """The base class of layers and models::

        class Perceptron(nn.Module):
            def __init__(self):
                self.first = nn.Linear(784, 128)
                self.second = nn.Linear(128, 10)

            def forward(self, x):
                return self.second(nn.relu(self.first(x)))

        ir = Perceptron().export({"forward": {"x": nn.spec.Tensor(["batch", 784], "float32")}})

    Attributes are found by walking the object, so that plain assignment and lists in `ModuleList` are all that is needed; names
    are paths, as in ``layers.0.weight``.

    Attributes:
        ignored_state: names that state dictionaries of other frameworks have for such a module, and that are not needed here.
    """

    ignored_state: ClassVar[tuple[str, ...]] = ()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; a subclass says so."""
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is None:
            return self.forward(*args, **kwargs)
        with trace.inside(self):
            return self.forward(*args, **kwargs)

    def _children(self) -> Iterable[tuple[str, Any]]:
        """The attributes that may be parts of the module, by name."""
        return vars(self).items()

    def named_parts(self, kind: type[P] | tuple[type[P], ...], prefix: str = "") -> Iterator[tuple[str, P]]:
        """Attributes of that kind, those of inner modules included, with their paths; what has two names comes under the first.

        The module itself is not among them.
        """
        seen: set[int] = set()
        pending: list[tuple[str, Any]] = [(prefix, self)]
        while pending:
            path, part = pending.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, kind) and part is not self:
                yield path, part
            if isinstance(part, Module):
                children = [(f"{path}.{name}" if path else name, child) for name, child in part._children()]
                pending.extend(reversed([c for c in children if isinstance(c[1], Module | Parameter | Effect)]))

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
        """Parameters with their paths; one that has two names comes once, under the first.

        Args:
            prefix: comes before all names.
        """
        yield from self.named_parts(Parameter, prefix)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """The module itself, which comes under ``prefix``, and inner ones with their paths."""
        yield prefix, self
        yield from self.named_parts(Module, prefix)

    def state_dict(self, *, prefix: str = "", destination: dict[str, Parameter] | None = None) -> dict[str, Parameter]:
        """All parameters by path, as references; those with two names under both.

        Args:
            prefix: comes before all names, as it is.
            destination: where to put them; a new dictionary by default.
        """
        found = {} if destination is None else destination
        for name, part in self._children():
            if isinstance(part, Parameter):
                found[prefix + name] = part
            elif isinstance(part, Module):
                part.state_dict(prefix=f"{prefix}{name}.", destination=found)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> tuple[list[str], list[str]]:
        """Binds parameters to the data of ``state_dict``, without a copy where arrays can be used as they are.

        Args:
            state_dict: parameters, arrays or tensors of another library, by path.
            strict: names have to be the same.

        Returns:
            Names that are missing in ``state_dict``, and names that it has for no parameter.

        Raises:
            KeyError: names differ, and ``strict``. Nothing was changed then.
            OptionError: a shape or an element type differs.
        """
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        ignored = {f"{path}.{name}".lstrip(".") for path, m in self.named_modules() for name in m.ignored_state}
        unexpected = [name for name in state_dict if name not in own and name not in ignored]
        if strict and (missing or unexpected):
            differing = f"missing: {', '.join(missing) or 'none'}; unexpected: {', '.join(unexpected) or 'none'}"
            raise KeyError(f"load_state_dict: {differing}")
        for name, given in state_dict.items():
            if name in own:
                try:
                    own[name].data = given.data if isinstance(given, Parameter) else given
                except OptionError as error:
                    raise OptionError(f"load_state_dict: {name!r}: {error}") from error
        return missing, unexpected

    def to(self, dtype: str | None = None) -> None:
        """Makes ``dtype`` the element type of unbound parameters and of effects, and of a text attribute ``dtype``."""
        for name, part in self._children():
            if isinstance(part, Parameter | Module | Effect):
                part.to(dtype=dtype)
            elif name == "dtype" and dtype is not None and isinstance(part, str):
                setattr(self, name, dtype)

    def export(self, spec: ModuleSpecType, *, debug: bool = False, keep_params_as_input: bool = False) -> IRModule:
        """The module as a graph with a function for each method of ``spec``: to look at, edit, quantize, save and compile.

        Args:
            spec: arguments of methods: ``{"forward": {"x": spec.Tensor([1, 8], "float32")}}``; of ``forward`` alone also
                ``{"x": ...}``.
            debug: ``print_`` and ``debug_func`` are allowed.
            keep_params_as_input: parameters stay inputs, after a method's own; their values are ``IRModule.params``. Otherwise
                those with data are constants, and only unbound ones inputs.

        Raises:
            OptionError: the specification does not fit the module, a method returns something else than tensors, or what
                operations refuse.
        """
        from forge.nn.export import Exporter

        return Exporter(self, spec, debug).module(keep_params_as_input)

    def export_tvm(self, spec: ModuleSpecType, debug: bool = False, allow_extern: bool = False) -> tuple[Any, ...]:
        """The module as a graph whose parameters are all inputs without values, and the parameters in that order.

        Args:
            spec: as of `export`.
            debug: as of `export`.
            allow_extern: external modules are the third thing that is returned.

        Returns:
            The ``IRModule``, ``[(name, Parameter)]`` and, with ``allow_extern``, the external modules.

        Raises:
            ValueError: the module has external modules, and ``allow_extern`` is not set. Otherwise as of `export`.
        """
        from forge.nn.export import Exporter

        exporter = Exporter(self, spec, debug)
        module = exporter.module(keep_params_as_input=True, bind=False)
        parameters = list(self.named_parameters())
        if allow_extern:
            return module, parameters, exporter.extern_modules
        if exporter.extern_modules:
            raise OptionError("export_tvm: the module calls external modules; expected allow_extern=True, which returns them")
        return module, parameters

    def jit(
        self,
        spec: ModuleSpecType,
        device: Any = "cpu",
        pipeline: Any = None,
        out_format: str = "torch",
        debug: bool = False,
        **options: Any,
    ) -> CompiledModule:
        """The module compiled in memory: ``module.jit(spec)["forward"](x)``.

        Args:
            spec: as of `export`.
            device: this machine's CPU.
            pipeline: of no effect; options of `forge.compile` choose what is done.
            out_format: what calls return: "torch" or "numpy".
            debug: as of `export`.
            options: of `forge.compile`.

        Raises:
            OptionError: a parameter is unbound, or as of `export`.
        """
        from forge.nn.jit import compiled

        return compiled(self, spec, device, out_format, debug, options)


class _Parts(Module):
    """A container, whose parts have no attributes of their own."""

    def _parts(self) -> Iterable[tuple[str, Any]]:
        raise NotImplementedError

    def _children(self) -> Iterable[tuple[str, Any]]:
        return self._parts()

    def to(self, dtype: str | None = None) -> None:
        for _, part in self._parts():
            part.to(dtype=dtype)


class _List(_Parts):
    """A list of parts; their names are numbers."""

    def __init__(self, parts: Iterable[Any] | None = None) -> None:
        self._items: list[Any] = list(parts or [])

    def _parts(self) -> Iterable[tuple[str, Any]]:
        return [(str(k), part) for k, part in enumerate(self._items)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __getitem__(self, index: int) -> Any:
        return self._items[index]

    def __setitem__(self, index: int, part: Any) -> None:
        self._items[index] = part

    def __len__(self) -> int:
        return len(self._items)

    def append(self, part: Any) -> None:
        """Adds a part at the end."""
        self._items.append(part)

    def extend(self, parts: Iterable[Any]) -> None:
        """Adds parts at the end."""
        self._items.extend(parts)


class ModuleList(_List):
    """Modules in a list, ``layers.0`` and so on.

    ``forward(x)`` applies one after the other.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """What the last module gives, each of which gets what the one before it gave."""
        for module in self:
            x = module(x)
        return x


class Sequential(ModuleList):
    """Modules one after the other: ``nn.Sequential(nn.Linear(8, 8), nn.ReLU())``."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)


class ParameterList(_List):
    """Parameters in a list."""

    def __init__(self, params: Iterable[Parameter] | None = None) -> None:
        super().__init__(params)


class _Dict(_Parts):
    """Parts by name."""

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        self._items: dict[str, Any] = dict(parts or {})

    def _parts(self) -> Iterable[tuple[str, Any]]:
        return self._items.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, part: Any) -> None:
        self._items[key] = part

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._items.keys())

    def values(self) -> Iterator[Any]:
        """The parts."""
        return iter(self._items.values())

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names and parts."""
        return iter(self._items.items())

    def get(self, key: str, default: Any = None) -> Any:
        """The part of that name, else ``default``."""
        return self._items.get(key, default)

    def update(self, parts: Mapping[str, Any]) -> None:
        """Adds and replaces parts."""
        self._items.update(parts)

    def clear(self) -> None:
        """Removes all parts."""
        self._items.clear()

    def pop(self, key: str) -> Any:
        """Removes and returns a part."""
        return self._items.pop(key)


class ModuleDict(_Dict):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__(modules)


class ParameterDict(_Dict):
    """Parameters by name."""

    def __init__(self, params: Mapping[str, Parameter] | None = None) -> None:
        super().__init__(params)


class Mutator:
    """Replaces parts of a module: a subclass overrides ``visit_module`` and the like, which return what takes a part's place::

        class Quantized(nn.Mutator):
            def visit_module(self, name, node):
                if isinstance(node, nn.Linear):
                    return QuantizedLinear(node)
                return self.visit(name, node)

        model = Quantized().visit("", model)

    By default each of them visits the parts of what it gets.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """What takes the place of a module."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """What takes the place of an effect."""
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """What takes the place of a parameter."""
        return node

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """What takes the place of a list of modules."""
        return self.visit(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """What takes the place of modules by name."""
        return self.visit(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """What takes the place of a list of parameters."""
        return self.visit(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """What takes the place of parameters by name."""
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Visits the parts of ``node`` and puts what the visits return in their places; returns ``node``.

        Args:
            name: the path of ``node``; "" for the whole.
        """
        for own, part in list(node._children()) if isinstance(node, Module) else []:
            visitor = self._visitor(part)
            if visitor is not None:
                replaced = visitor(f"{name}.{own}" if name else own, part)
                if isinstance(node, _List):
                    node[int(own)] = replaced
                elif isinstance(node, _Dict):
                    node[own] = replaced
                else:
                    setattr(node, own, replaced)
        return node

    def _visitor(self, part: Any) -> Callable[[str, Any], Any] | None:
        kinds: Sequence[tuple[type, Callable[[str, Any], Any]]] = (
            (ModuleList, self.visit_modulelist),
            (ModuleDict, self.visit_moduledict),
            (ParameterList, self.visit_parameterlist),
            (ParameterDict, self.visit_parameterdict),
            (Module, self.visit_module),
            (Effect, self.visit_effect),
            (Parameter, self.visit_param),
        )
        return next((visitor for kind, visitor in kinds if isinstance(part, kind)), None)


__all__ = [
    "Module",
    "ModuleDict",
    "ModuleList",
    "Mutator",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]
