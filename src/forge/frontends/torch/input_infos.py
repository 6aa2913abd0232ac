"""The inputs of a PyTorch model as users describe them: ``input_infos`` of ``from_torch``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from forge import dims, dims_text, dtypes
from forge.dims import Dim
from forge.errors import ForgeError, ImportModelError, OptionError
from forge.frontends.torch.program import Input, Program, ScalarMeta, TensorMeta

EXPECTED = (
    "expected (name, shape), (name, (shape, dtype)) or (name, tensor), as in ('x', (1, 3, 'h', 'w')) or ('x', ((1, 2), 'int')); "
    "tuples of these stand for tuples of tensors"
)

EXAMPLE_SIZE, EXAMPLE_STEP = 32, 8
"""Sizes of made-up tensors along dimensions that have names only: the first one, and how much larger each next one is."""


@dataclass(frozen=True)
class TensorInfo:
    """What is said of one tensor.

    Attributes:
        shape: integers, names, `torch.export.Dim` or None for a size that is open; None where nothing is said.
        dtype: Forge's name; None where nothing is said.
        example: the tensor itself, or a number.
    """

    shape: tuple[Any, ...] | None = None
    dtype: str | None = None
    example: Any = None


@dataclass(frozen=True)
class InputInfo:
    """One input: a tensor, or a sequence of these. ``name`` may be empty; ``is_list`` says which of Python's sequences it is."""

    name: str
    what: TensorInfo | tuple[InputInfo, ...]
    is_list: bool = False

    def leaves(self) -> list[tuple[str, TensorInfo]]:
        """The tensors and their names: those of a tuple ``x`` are ``x_0``, ``x_1``."""
        if isinstance(self.what, TensorInfo):
            return [(self.name, self.what)]
        return [leaf for item in self.what for leaf in item.leaves()]


class Named(list[InputInfo]):
    """Inputs whose names are those of the parameters of the module's ``forward``."""


def parse(input_infos: Any, where: str = "from_torch") -> list[InputInfo]:
    """The inputs, in order; a mapping names arguments of the module's ``forward``.

    Raises:
        OptionError: they have another form.
    """
    by_name = isinstance(input_infos, Mapping)
    if by_name:
        input_infos = list(input_infos.items())
    if isinstance(input_infos, str) or not isinstance(input_infos, Sequence):
        raise OptionError(f"{where}: input_infos: got {_shown(input_infos)}; expected a list of inputs: {EXPECTED}")
    found = [_input(item, f"{where}: input_infos[{k}]") for k, item in enumerate(input_infos)]
    names = [name for info in found for name, _ in info.leaves() if name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"{where}: input_infos: got the name {twice!r} twice; expected a name for each input")
    return Named(found) if by_name else found


def _input(item: Any, where: str) -> InputInfo:
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
        if not item[0].isidentifier():
            raise OptionError(f"{where}: got the name {item[0]!r}; expected an identifier, such as 'input0'")
        return _named(item[0], item[1], None, where)
    if _is_tensor(item) or isinstance(item, bool | int | float) or _is_typed(item):
        return _named("", item, None, where)
    if isinstance(item, tuple | list) and item and not any(isinstance(part, str) for part in item):
        return _named("", item, None, where)
    raise OptionError(f"{where}: got {_shown(item)}; {EXPECTED}")


def _named(name: str, what: Any, dtype: str | None, where: str) -> InputInfo:
    if _is_tensor(what):
        from forge.frontends.torch.exported import dtype_of

        return InputInfo(name, TensorInfo(tuple(what.shape), dtype_of(what.dtype), what))
    if isinstance(what, bool | int | float):
        return InputInfo(name, TensorInfo(example=what))
    if _is_typed(what):
        return _named(name, what[0], element_type(what[1], where), where)
    if isinstance(what, tuple | list) and all(_is_size(size) for size in what):
        return InputInfo(name, TensorInfo(tuple(_size(size, where) for size in what), dtype))
    if isinstance(what, tuple | list):
        parts = (_named(f"{name}_{k}" if name else "", part, dtype, where) for k, part in enumerate(what))
        return InputInfo(name, tuple(parts), isinstance(what, list))
    raise OptionError(f"{where}: got {_shown(what)}; {EXPECTED}")


def _shown(value: Any) -> str:
    return repr(value) if len(repr(value)) < 200 else type(value).__name__


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "dtype") and hasattr(value, "shape")


def _is_typed(what: Any) -> bool:
    """Whether it is (shape, dtype); a shape of names has no sequence in it."""
    return isinstance(what, tuple | list) and len(what) == 2 and isinstance(what[0], tuple | list) and _names_type(what[1])


def _names_type(what: Any) -> bool:
    return isinstance(what, str | type) or type(what).__name__ in ("dtype", "DType") or hasattr(what, "num")


def _is_size(size: Any) -> bool:
    return size is None or isinstance(size, str | int | dims.DimExpr) or _is_torch_dim(size)


def _is_torch_dim(size: Any) -> bool:
    return "torch.export" in type(size).__module__ or type(size).__name__ in ("Dim", "_DimHint")


def _size(size: Any, where: str) -> Any:
    if isinstance(size, dims.DimExpr):
        size = str(size)
    if isinstance(size, bool) or isinstance(size, int) and size < -1 or isinstance(size, str) and _derived(size) is None:
        raise OptionError(f"{where}: got the size {size!r}; expected a number, a name of a dimension, '2*n + 1' of one, or None")
    return None if size == -1 else size


def _derived(text: str) -> tuple[str, int, int] | None:
    """Name, factor and offset of ``n``, ``2*n`` or ``2*n + 1``; None where a text is something else."""
    if text.isidentifier():
        return text, 1, 0
    try:
        found = dims.linear(dims_text.parse(text))
    except (ForgeError, ValueError):
        return None
    return found if found is not None and found[1] > 0 else None


def element_type(dtype: Any, where: str) -> str:
    """Forge's name of a type that torch, NumPy or an alias names.

    Raises:
        OptionError: there is none.
    """
    name = str(dtype).removeprefix("torch.") if isinstance(dtype, str) or type(dtype).__module__ == "torch" else dtype
    try:
        return dtypes.canonical(_ALIASES.get(name, name) if isinstance(name, str) else name)
    except TypeError as error:
        raise OptionError(f"{where}: {error}") from error


_ALIASES = {"byte": "uint8", "char": "int8", "short": "int16", "cfloat": "complex64", "cdouble": "complex128"}


def examples(infos: Sequence[InputInfo], default_dtype: str, named_sizes: Mapping[str, int] | None = None) -> tuple[Any, ...]:
    """Arguments to run a model with: the tensors that were given, else zeros."""
    sizes: dict[Any, int] = dict(named_sizes or {})
    return tuple(_example(info, default_dtype, sizes) for info in infos)


def _example(info: InputInfo, default_dtype: str, sizes: dict[Any, int]) -> Any:
    import torch

    if not isinstance(info.what, TensorInfo):
        parts = [_example(item, default_dtype, sizes) for item in info.what]
        return parts if info.is_list else tuple(parts)
    if info.what.example is not None:
        return info.what.example
    shape = []
    for axis, size in enumerate(info.what.shape or ()):
        key = (info.name, axis) if size is None else getattr(size, "__name__", size)
        key, factor, offset = _derived(key) or (key, 1, 0) if isinstance(key, str) else (key, 1, 0)
        free = EXAMPLE_SIZE + EXAMPLE_STEP * len(sizes)
        known = size if isinstance(size, int) else sizes.setdefault(key, free) * factor + offset
        shape.append(min(max(known, getattr(size, "min", 0)), getattr(size, "max", known)) if _is_torch_dim(size) else known)
    return torch.zeros(shape, dtype=getattr(torch, info.what.dtype or default_dtype))


def dynamic_shapes(infos: Sequence[InputInfo], bounds: Mapping[str, Mapping[str, int]] = MappingProxyType({})) -> tuple[Any, ...]:
    """What `torch.export` is to know of their dimensions: equal names are equal sizes.

    Args:
        bounds: of dimensions by their names: ``min``, ``max``, or both.
    """
    from torch.export import Dim

    made: dict[str, Any] = {name: Dim(name, **known) for name, known in bounds.items()}
    return tuple(_dynamic(info, made) for info in infos)


def dimension_names(infos: Sequence[InputInfo]) -> list[str]:
    """Names of dimensions, of which others may be made: ``h``, where one is ``2*h``."""
    sizes = [size for info in infos for _, leaf in info.leaves() for size in leaf.shape or () if isinstance(size, str)]
    return list(dict.fromkeys((_derived(size) or (size,))[0] for size in sizes))


def _dynamic(info: InputInfo, made: dict[str, Any]) -> Any:
    from torch.export import Dim

    if not isinstance(info.what, TensorInfo):
        parts = [_dynamic(item, made) for item in info.what]
        return parts if info.is_list else tuple(parts)
    if info.what.shape is None:
        return None
    sizes: dict[int, Any] = {}
    for axis, size in enumerate(info.what.shape):
        if isinstance(size, str):
            name, factor, offset = _derived(size) or (size, 1, 0)
            of = made.setdefault(name, Dim(name))
            multiple = of * factor if factor != 1 else of
            sizes[axis] = multiple + offset if offset > 0 else multiple - -offset if offset else multiple
        elif size is None:
            sizes[axis] = Dim.DYNAMIC
        elif not isinstance(size, int):
            sizes[axis] = size
    return sizes or None


def rename(program: Program, infos: Sequence[InputInfo], where: str) -> None:
    """Gives the inputs of a program the users' names, and checks what is said of them.

    Raises:
        ImportModelError: the number of inputs, a shape or a type differs.
    """
    leaves = [leaf for info in infos for leaf in info.leaves()]
    if isinstance(infos, Named):
        labels = [item.label for item in program.inputs]
        unknown = next((name for name, _ in leaves if name not in labels), None)
        if unknown is not None:
            raise ImportModelError(f"{where}: input_infos: got {unknown!r}; expected an input of the model: {', '.join(labels)}")
        leaves.sort(key=lambda leaf: labels.index(leaf[0]))
    tensors = [k for k, item in enumerate(program.inputs) if not item.is_constant]
    if len(leaves) != len(tensors):
        if len(leaves) != len(program.inputs):
            expected = ", ".join(_described(program, program.inputs[k]) for k in tensors)
            raise ImportModelError(
                f"{where}: input_infos: got {len(leaves)} inputs ({', '.join(n or '?' for n, _ in leaves)}); the model has "
                f"{len(tensors)}: {expected or 'none'}")
        tensors = list(range(len(program.inputs)))
    for k, (name, info) in zip(tensors, leaves):
        item = program.inputs[k]
        _check(program, item, info, f"{where}: input_infos: {name or item.label!r}")
        if name:
            program.inputs[k] = replace(item, label=name)


def completed(info: InputInfo, traced: InputInfo | None, where: str) -> InputInfo:
    """An input of a trace, with the type with which it was traced where none is given.

    Raises:
        ImportModelError: its type or rank is another one.
    """
    if traced is None or not isinstance(info.what, TensorInfo) or not isinstance(traced.what, TensorInfo):
        return info
    what, was = info.what, traced.what
    if isinstance(what.example, bool | int | float):
        raise ImportModelError(f"{where}: input_infos: {info.name!r}: got {what.example!r}; it was traced with shape {was.shape}")
    if what.dtype not in (None, was.dtype):
        raise ImportModelError(f"{where}: input_infos: {info.name!r}: got {what.dtype}; it was traced with {was.dtype}")
    if what.shape is not None and was.shape is not None and len(what.shape) != len(was.shape):
        raise ImportModelError(f"{where}: input_infos: {info.name!r}: got shape {what.shape}; it was traced with {was.shape}")
    return replace(info, what=replace(what, dtype=was.dtype))


def _described(program: Program, item: Input) -> str:
    meta = program.metas.get(item.name)
    if isinstance(meta, TensorMeta):
        return f"{item.label}: {meta.dtype}[{', '.join(program.symbol_names.get(str(d), str(d)) for d in meta.shape)}]"
    return f"{item.label}: {meta.kind}" if isinstance(meta, ScalarMeta) else item.label


def _check(program: Program, item: Input, info: TensorInfo, where: str) -> None:
    meta = program.metas.get(item.name)
    if not isinstance(meta, TensorMeta) or item.is_constant:
        return
    if info.dtype is not None and info.dtype != meta.dtype:
        raise ImportModelError(f"{where}: got {info.dtype}; the model takes {_described(program, item)}")
    if info.shape is None:
        return
    if len(info.shape) != len(meta.shape):
        raise ImportModelError(f"{where}: got rank {len(info.shape)}; the model takes {_described(program, item)}")
    for axis, (size, expected) in enumerate(zip(info.shape, meta.shape)):
        name = dims.symbol_name(expected)
        label = size if isinstance(size, str) else getattr(size, "__name__", None)
        if isinstance(size, int):
            wrong = not _may_be(program, name, expected, size, info.example is not None)
        else:
            wrong = label is not None and isinstance(expected, int)
            if label is not None and name is not None and label.isidentifier():
                program.symbol_names[name] = label
        if wrong:
            raise ImportModelError(
                f"{where}, axis {axis}: got {label or size}; the model takes {_described(program, item)}; "
                "export it with the sizes that it is to have")


def _may_be(program: Program, name: str | None, expected: Dim, size: int, is_example: bool) -> bool:
    """Whether an axis may have a size; where the program leaves it open, it is fixed, but for one of an example."""
    if name is None:
        return not isinstance(expected, int) or expected == size
    least, most = program.bounds.get(name, (None, None))
    if least is not None and 2 < least > size or most is not None and size > most:
        return False
    return is_example or program.sizes.setdefault(name, size) == size
