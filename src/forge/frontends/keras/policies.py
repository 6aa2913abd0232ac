"""The types that layers compute in, and keep their weights in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forge.errors import ImportModelError

_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
_TYPES = frozenset({
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"})


@dataclass(frozen=True)
class Policy:
    """How a layer computes.

    Attributes:
        compute: the type of its floating-point inputs and of what it computes.
        variables: the type of its weights.
        mode: of quantization, as Keras calls it; "" for none.
        block: weights that share a scale, where ``mode`` has such; None: those of a channel.
    """

    compute: str = "float32"
    variables: str = "float32"
    mode: str = ""
    block: int | None = None


def policy_of(dtype: Any, layer: str) -> Policy:
    """The policy that a layer's configuration gives.

    Raises:
        ImportModelError: it is none of Keras.
    """
    if dtype is None:
        return Policy()
    if isinstance(dtype, str):
        return _named(dtype, layer)
    if not isinstance(dtype, Mapping) or not isinstance(dtype.get("config"), Mapping):
        raise ImportModelError(
            f"layer {layer!r}: its dtype is {str(dtype)[:80]!r}; expected a policy of Keras; the model is damaged")
    kind, config = dtype.get("class_name"), dtype["config"]
    if kind == "DTypePolicyMap":
        default = config.get("default_policy")
        return policy_of(default, layer)
    if kind in ("DTypePolicy", "Policy", "FloatDTypePolicy"):
        return _named(config.get("name"), layer)
    if kind in ("QuantizedDTypePolicy", "QuantizedFloat8DTypePolicy", "GPTQDTypePolicy", "AWQDTypePolicy", "Int4DTypePolicy"):
        source = policy_of(config.get("source_name"), layer)
        block = config.get("block_size")
        return Policy(source.compute, source.variables, str(config.get("mode")).partition("/")[0],
                      block if isinstance(block, int) and block > 0 else None)
    raise ImportModelError(
        f"layer {layer!r}: its dtype policy is {str(kind)[:80]!r}; expected DTypePolicy or QuantizedDTypePolicy")


def _named(name: Any, layer: str) -> Policy:
    if isinstance(name, str) and "_from_" in name[1:]:
        mode, _, source = name.partition("_from_")
        found = _named(source, layer)
        return Policy(found.compute, found.variables, mode.partition("/")[0])
    if not isinstance(name, str):
        raise ImportModelError(f"layer {layer!r}: its dtype is {str(name)[:80]!r}; expected the name of one")
    if name in _MIXED:
        return Policy(_MIXED[name], "float32")
    if name in _TYPES:
        return Policy(str(name), str(name))
    raise ImportModelError(f"layer {layer!r}: its dtype is {str(name)[:80]!r}; expected an element type, or a policy of Keras")
