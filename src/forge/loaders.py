"""``forge.load``: a model of any format as an ``IRModule``; and ``forge.compile``: the same as a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from io import IOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.errors import ImportModelError, OptionError
from forge.frontends import PACKAGES, formats
from forge.frontends.formats import SAVED, Format
from forge.module import IRModule
from forge.module.loading import bind
from forge.options import takes_options
from forge.target import TargetLike

if TYPE_CHECKING:
    from forge_runtime import Runtime, Session


def load(source: Any, **options: Any) -> IRModule:
    """Loads a model of any format that Forge reads.

    Args:
        source: a path, the contents of a file as bytes or an open binary file, or a model of a framework that was imported
            already: an ``onnx.ModelProto``, a ``torch.nn.Module``, an ``ExportedProgram``. A file is known by its contents or its
            ending, a folder by the names of its files, or by the one model in it. ``IRModule.save`` writes such files, too.
        options: those of the format's own loader, ``forge.from_onnx``, ``forge.from_torch`` and so on.

    Raises:
        OptionError: ``source`` is nothing that a format knows, or the format has no such option.
        ImportModelError: there is no such file, no format or several fit (what was tried is said), or the model is damaged.
        What the format's loader raises.
    """
    if isinstance(source, IOBase):
        source = source.read()
    if isinstance(source, str | os.PathLike) and str(source):
        _refuse_compiled(Path(source))
    door, model = formats.recognize(source)
    unknown = [name for name in options if name not in door.options]
    if unknown:
        known = ", ".join(door.options) or "none"
        near = get_close_matches(unknown[0], door.options)
        hint = f"; did you mean {' or '.join(near)}" if near else ""
        raise OptionError(f"load: {unknown[0]!r} is not an option of {door.title} models; expected one of: {known}{hint}")
    if door is SAVED:
        return IRModule._loaded(door.load(model), simplify=False)
    return loader(door.name)(model, **options)


def _refuse_compiled(path: Path) -> None:
    from forge_runtime.artifact import LIBRARY_NAME

    if (path / LIBRARY_NAME).is_file() or path.name.endswith(".so") and path.is_file():
        raise ImportModelError(f"load: {path}: is compiled; expected a model; forge.Runtime runs it")


@takes_options
def compile(  # noqa: A001
    source: Any,
    target: TargetLike = "llvm",
    opt_level: int = 3,
    set_float16: bool = False,
    set_channel_layout: str | None = None,
    winograd: bool = True,
    set_bfloat16: bool = False,
    tuned: bool = False,
    exact: bool = False,
    check_indices: bool = True,
    typical: Mapping[str, int] | Sequence[str] = (),
    float32_products: str | int = "6",
) -> Runtime | Session:
    """Loads a model and compiles it in memory: ``forge.compile("model.onnx")(x)``.

    ``IRModule.compile`` writes a library instead. Models with states give a session.

    Args:
        source: what `load` takes, or an ``IRModule``: ``forge.compile(forge.load("model.onnx", shape={"x": (1, 3, 224, 224)}))``.
        {options}

    Raises:
        What `load` raises; OptionError, TargetError: a bad argument; CompileError: an operator cannot be compiled.
    """
    from forge.driver import check_options, compile_module

    loaded = source if isinstance(source, IRModule) else load(source)
    checked = check_options(
        target, opt_level=opt_level, float16=set_float16, bfloat16=set_bfloat16, channel_layout=set_channel_layout,
        winograd=winograd, exact=exact, check_indices=check_indices, typical=typical, tuned=tuned,
        float32_products=float32_products)
    runtime = compile_module(loaded._verified(), checked).runtime()
    return runtime.session() if runtime.states else runtime


def loader(name: str) -> Callable[..., IRModule]:
    """``forge.from_NAME``.

    Raises:
        OptionError: there is no format of that name.
    """
    formats.find(name)
    function = f"from_{name}"
    return globals().setdefault(function, getattr(IRModule, function))  # type: ignore[no-any-return]


def register_format(door: Format) -> None:
    """Makes a format of your own one that Forge loads: ``forge.load``, ``forge.from_NAME`` and the command line know it then.

    Raises:
        OptionError: its name or one of its endings is not such.
    """
    formats.register(door)
    _bind(door)


def unregister_format(name: str) -> None:
    """Takes back what `register_format` did. A format of Forge's own that had the name is as before."""
    formats.unregister(name)
    if name in PACKAGES:
        _bind(formats.find(name))
    elif f"from_{name}" in vars(IRModule):
        delattr(IRModule, f"from_{name}")
        globals().pop(f"from_{name}", None)


def _bind(door: Format) -> None:
    bind(IRModule, door)
    globals().pop(f"from_{door.name}", None)  # it is made again when it is asked for


def __getattr__(name: str) -> Callable[..., IRModule]:
    if name.startswith("from_") and name[5:] in formats.names():
        return loader(name[5:])
    raise AttributeError(f"module 'forge.loaders' has no attribute {name!r}")
