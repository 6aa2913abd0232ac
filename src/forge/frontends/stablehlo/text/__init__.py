"""Reads modules of StableHLO from MLIR's text, in its generic form and in the dialects' own."""

from __future__ import annotations

import re

from forge.frontends.stablehlo.assemble import module_of
from forge.frontends.stablehlo.module import StablehloModule
from forge.frontends.stablehlo.text.pretty import PrettyReader
from forge.frontends.stablehlo.text.resources import read_resources

_RESOURCES = re.compile(r"^\{-#", re.MULTILINE)


def read_text(text: str, where: str) -> StablehloModule:
    """The module that text has.

    Args:
        text: in MLIR's generic form, or as StableHLO prints it. Of a file, decoded with ``errors="surrogateescape"``: strings may
            hold bytes.
        where: what it is called, for messages.

    Raises:
        ImportModelError: it is damaged, or is not a module of functions.
    """
    text, resources = _split(text, where)
    return module_of(PrettyReader(text, where, resources).file(), where)


def _split(text: str, where: str) -> tuple[str, dict[str, bytes]]:
    """The text, and contents of resources, which are in a section at its end."""
    if not text.rstrip().endswith("#-}"):
        return text, {}
    begin = [found.start() for found in _RESOURCES.finditer(text)]
    return (text[: begin[-1]], read_resources(text, begin[-1], where)) if begin else (text, {})
