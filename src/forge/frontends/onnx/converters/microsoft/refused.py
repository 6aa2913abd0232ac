"""Operators that are refused by name, each with its reason."""

from __future__ import annotations

from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import refuse

_SEARCH = "a search over tokens around models of its own; export the decoder and search outside of the model"
_ORDERED = "a layout of NVIDIA's int8 matrices; export the model in quantised form for CPUs"
_BINARY = "a program of another execution provider in binary form; export the model before that provider compiled it"
_PAGED = "a cache in pages that a server owns and the operator writes to; export the model with past and present instead"
_PACKED = "sequences packed without padding, for GPUs; turn the optimiser's packing mode off"
_LAYOUT = "onnxruntime's layout of convolutions for the machine that optimised the model; save it at ORT_ENABLE_EXTENDED"

_REASONS = {
    "BeamSearch": _SEARCH,
    "GreedySearch": _SEARCH,
    "Sampling": _SEARCH,
    "WhisperBeamSearch": _SEARCH,
    "QOrderedAttention": _ORDERED,
    "QOrderedGelu": _ORDERED,
    "QOrderedLayerNormalization": _ORDERED,
    "QOrderedLongformerAttention": _ORDERED,
    "QOrderedMatMul": _ORDERED,
    "QuantizeWithOrder": _ORDERED,
    "DequantizeWithOrder": _ORDERED,
    "EPContext": _BINARY,
    "Snpe": _BINARY,
    "PagedAttention": _PAGED,
    "SparsePagedAttention": _PAGED,
    "PackedAttention": _PACKED,
    "PackedMultiHeadAttention": _PACKED,
    "PackedSparseAttentionIndexer": _PACKED,
    "RemovePadding": _PACKED,
    "RestorePadding": _PACKED,
}
_BLOCKED = ("AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample")

for _op, _reason in _REASONS.items():
    refuse(_op, _reason, DOMAIN)
for _op in _BLOCKED:
    refuse(_op, _LAYOUT, f"{DOMAIN}.nchwc")
