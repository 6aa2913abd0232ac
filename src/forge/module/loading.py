"""How ``IRModule`` gets a class method for each format of models: ``from_onnx`` and so on."""

from __future__ import annotations

import functools
import inspect
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format
from forge.ir.verifier import verify

if TYPE_CHECKING:
    from forge.module import IRModule


def bind(owner: type[IRModule], door: Format) -> None:
    """Makes the loader of ``door`` a class method of ``owner``, with its signature and docstring."""
    setattr(owner, f"from_{door.name}", classmethod(_method(door)))


def _method(door: Format) -> Any:
    signature = inspect.signature(door.load)
    name = f"from_{door.name}"

    @functools.wraps(door.load)
    def load(cls: type[IRModule], *args: Any, **options: Any) -> IRModule:
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
        unknown = [option for option in options if option not in signature.parameters and not takes_any]
        if unknown:
            near = get_close_matches(unknown[0], signature.parameters)
            hint = f"; did you mean {' or '.join(near)}" if near else f"; it takes {', '.join(door.options) or 'none'}"
            raise TypeError(f"{name}: got an unexpected keyword argument {unknown[0]!r}{hint}")
        module = door.load(*args, **options)
        verify(module)
        frozen = signature.bind(*args, **options).arguments.get("freeze_params", True)
        return cls._loaded(module, simplify=bool(frozen))

    owner = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    load.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[owner, *signature.parameters.values()], return_annotation="IRModule")
    load.__name__, load.__qualname__ = name, f"IRModule.{name}"
    return load
