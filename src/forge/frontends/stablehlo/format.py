"""The format StableHLO, and its loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from forge.frontends.formats import Format, Magic

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module


def from_stablehlo(
    stablehlo_module: str | bytes | PathLike[str] | Any,
    input_info: Mapping[str, Sequence[Any]] | Sequence[tuple[Sequence[Any], str]] | None = None,
) -> Module:
    """Loads a module of StableHLO.

    Args:
        stablehlo_module: the path of a file; text, in StableHLO's own form or MLIR's generic one; the bytes of a portable
            artifact (MLIR bytecode), of any version; a ``jax.export.Exported`` or its serialized bytes; a module of jaxlib's
            bindings, or what ``jax.jit(f).lower(...)`` gives.
        input_info: sizes of the inputs of the main function that the module leaves open: shapes by names of inputs, or a
            ``(shape, dtype)`` for each input in order. Entries of shapes are integers, None to keep, or texts: names of symbols,
            or expressions of them.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the module cannot be read, is not valid, or contradicts an
        argument; OpNotImplemented: it has operations without a converter, all listed.
    """
    from forge.frontends.stablehlo.loader import import_module
    from forge.frontends.stablehlo.sources import read

    return import_module(read(stablehlo_module), input_info)


def _support() -> Support:
    from forge.frontends.stablehlo.coverage import coverage, model_operators
    from forge.frontends.stablehlo.registry import REGISTRY
    from forge.frontends.support import Support

    return Support(REGISTRY, coverage, model_operators)


_EXPORTED = rb"[\x28-\x48]\0\0\0(?:\0\0)?[\x24-\x40]\0[\x30-\x78]\0"
"""How a flatbuffer of ``jax.export`` begins: where its table is, behind a list of 16 to 30 fields; it has no identifier."""

FORMAT = Format(
    name="stablehlo", title="StableHLO", suffixes=(".mlir", ".mlirbc", ".stablehlo"), load=from_stablehlo, support=_support,
    objects=("jax.export:Exported", "jax.stages:Lowered", "jaxlib.mlir.ir:Module"),
    magic=(
        Magic(head=rb"ML\xefR"),
        Magic(head=_EXPORTED),
        Magic(head=rb"\s*(?://[^\n]*\n\s*)*(?:#\w+ = |\"builtin\.module\"|(?:builtin\.)?module\b|(?:func\.)?func\b|!\w+ = )"),
    ))
