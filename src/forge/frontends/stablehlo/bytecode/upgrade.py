"""Operations of VHLO as those of StableHLO: names without versions, structures of attributes that VHLO has one by one."""

from __future__ import annotations

import re
from typing import Any

from forge.frontends.stablehlo import spelling
from forge.frontends.stablehlo.module import OpaqueType, Symbol

_VERSION = re.compile(r"_v\d+\Z")
_OF_FUNC = ("func", "call")
_STRUCTURES: dict[str, tuple[tuple[str, str], ...]] = {
    "gather": (("dimension_numbers", "gather"),),
    "dynamic_gather": (("dimension_numbers", "gather"),),
    "scatter": (("scatter_dimension_numbers", "scatter"),),
    "convolution": (("dimension_numbers", "conv"),),
    "dynamic_conv": (("dimension_numbers", "conv"),),
    "dot_general": (("dot_dimension_numbers", "dot"), ("algorithm", "dot_algorithm")),
}
"""Of operations: attributes that are structures, and which."""
_WITH_CHANNEL = (*spelling.WITH_CHANNEL, "send", "recv")
_SYMBOLS = ("callee", "decomposition", "called_computations")
_UNITS = ("use_global_device_ids", "has_dynamic_root")


def name_of(name: str, parent: str) -> str:
    """The name of ``vhlo.NAME`` in an operation of name ``parent``."""
    name = _VERSION.sub("", name)
    if name in _OF_FUNC or name == "return" and parent == "func.func":
        return f"func.{name}"
    return f"stablehlo.{name}"


def attributes_of(operation: str, given: dict[str, Any], fail: spelling.Fail) -> dict[str, Any]:
    """The attributes of an operation of StableHLO from those of its twin in VHLO."""
    dialect, _, name = operation.partition(".")
    found = {key: _symbol(value) if key in _SYMBOLS else value for key, value in given.items() if not _is_none(value)}
    if dialect == "func":
        return {key: value for key, value in found.items() if not isinstance(value, str | list) or value}
    for attribute, mnemonic in _STRUCTURES.get(name, ()):
        fields = {field: spelling.listed(found.pop(field), fail) for field in spelling.STRUCTURES[mnemonic] if field in found}
        if fields:
            found[attribute] = spelling.structure(mnemonic, fields, fail)
    if name in _WITH_CHANNEL and "channel_id" in found:
        found["channel_handle"] = {"handle": found.pop("channel_id"), "type": found.pop("channel_type", 0)}
    if name == "dynamic_conv":  # its padding is an operand; old versions have an attribute beside it, which says nothing
        found.pop("padding", None)
    return {key: value for key, value in found.items() if key not in _UNITS or value is not False}


def _is_none(value: Any) -> bool:
    """Attributes that an operation does not have are of type none."""
    return isinstance(value, OpaqueType) and value.text == "none"


def _symbol(value: Any) -> Any:
    if isinstance(value, list):
        return [_symbol(entry) for entry in value]
    return Symbol(value) if isinstance(value, str) else value
