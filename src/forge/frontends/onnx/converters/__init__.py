"""The built-in converters, grouped by kind of operator. Importing a module adds its rows to the table."""

from __future__ import annotations

from importlib import import_module

MODULES = (
    "elementwise", "reduction", "movement", "indexing", "creation", "contraction", "attention", "pooling", "normalization",
    "recurrent", "resize", "quantization", "control", "sequences", "randomness", "training", "losses", "vision", "caching",
    "spectral", "strings", "labels", "trees", "linear", "features", "experimental", "aten", "microsoft.activations",
    "microsoft.products", "microsoft.convolutions", "microsoft.norms", "microsoft.embedding", "microsoft.attention",
    "microsoft.grouped_query", "microsoft.quantized", "microsoft.quantized_products", "microsoft.packed_weights",
    "microsoft.tensors", "microsoft.spectral", "microsoft.hashing", "microsoft.refused",
)


def load_all() -> None:
    """Imports every module of converters."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
