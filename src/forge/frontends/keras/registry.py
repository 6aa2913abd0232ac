"""The converters of Keras's layers, and of operations of ``keras.ops`` (domain "ops"), by class; functions of
TensorFlow that Keras 2 has between layers (domain "tf"), by name.

Positional parameters are the arguments of a layer's ``call``; keyword-only ones are its configuration, with Keras's defaults.
Fields of the configuration that only training reads are dropped before.
"""

from __future__ import annotations

from forge.frontends.keras.tree import FUNCTIONS, OPS
from forge.frontends.registry import Registry

REGISTRY = Registry("keras", domain_name="keras")
converts = REGISTRY.converts
refuse = REGISTRY.refuse
register = REGISTRY.register
unregister = REGISTRY.unregister

__all__ = ["FUNCTIONS", "OPS", "REGISTRY", "converts", "refuse", "register", "unregister"]

_IGNORED = frozenset({
    "name", "trainable", "dtype", "batch_input_shape", "batch_shape", "input_shape", "input_dim", "input_length", "input_spec",
    "seed", "lora_rank", "lora_alpha", "quantization_config", "autocast", "activity_regularizer", "dropout", "recurrent_dropout",
    "renorm_clipping", "renorm_momentum", "synchronized", "momentum", "implementation", "unroll", "ragged", "sparse",
    "unit_forget_bias", "batch_size", "build_config", "flash_attention", "fused", "virtual_batch_size",
    "adjustment", "cache_device", "experimental_autocast", "renorm"})
_ENDINGS = ("_initializer", "_regularizer", "_constraint")


def is_for_training(name: str) -> bool:
    """Whether a field of a layer's configuration does not matter to what it computes."""
    return name in _IGNORED or name.endswith(_ENDINGS)
