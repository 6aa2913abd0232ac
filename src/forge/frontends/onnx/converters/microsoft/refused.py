"""Operators that are refused by name, each with its reason."""

from __future__ import annotations

from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import refuse

_REASONS = {
    "a search over tokens around models of its own; export the decoder and search outside of the model": (
        "BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch", "BifurcationDetector",
    ),
    "the attention of a decoder inside such a search, which shares one cache between beams; export the decoder alone": (
        "DecoderAttention", "DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention",
    ),
    "a layout of NVIDIA's int8 matrices; export the model in quantized form for CPUs": (
        "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul",
        "QuantizeWithOrder", "DequantizeWithOrder",
    ),
    "a number format of one accelerator; export the model without it": (
        "QuantizeBFP", "DequantizeBFP", "GemmFloat8", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight",
    ),
    "a program of another execution provider in binary form; export the model before that provider compiled it": (
        "EPContext", "Snpe",
    ),
    "a cache in pages that a server owns and the operator writes to; export the model with past and present instead": (
        "PagedAttention", "SparsePagedAttention",
    ),
    "sequences packed without padding, for GPUs; turn the optimizer's packing mode off": (
        "PackedAttention", "PackedMultiHeadAttention", "PackedSparseAttentionIndexer",
        "PackedSparseAttentionIndexerMerge", "RemovePadding", "RestorePadding",
        "VarlenCausalConvWithState", "VarlenNGramHashMapping",
    ),
    "attention to blocks or windows that are chosen while the model runs; export the model with dense attention": (
        "SparseAttention", "SparseAttentionIndexer", "DynamicSparseAttention", "LongformerAttention",
    ),
    "several matrix products in one node, for GPUs; save the model before they are merged": (
        "MatMulNBitsMlp", "MatMulNBitsQkv", "MatMulNBitsQLoRA", "RouterGateUpProj", "RMSNormRotary",
    ),
    "weights in blocks of a format of GPUs; quantize the model again, which gives MatMulNBits and GatherBlockQuantized": (
        "GatherPacked", "MatMulPacked", "MoEPacked",
    ),
    "a step of speculative decoding that a server drives; export the model without it": (
        "ConvStateReplay", "GatedDeltaNetStateReplay", "Mamba2Verify", "SpeculativePrefixCommit",
    ),
    "an older packing of four bits without documentation; quantize the model again, which gives MatMulNBits": ("MatMulFpQ4",),
    "a recurrent layer with an attention of its own; export the layer in its parts": ("AttnLSTM",),
    "bits of a mask for training; export the model in evaluation mode": ("BitmaskDropout", "BitmaskBiasDropout"),
    "its first input is a sparse tensor; make it dense, which turns the product into MatMul": ("SparseToDenseMatMul",),
    "separators are regular expressions of RE2 over UTF-8; split the text before the model": ("Tokenizer",),
    "there is no converter yet; export the model in parts, without onnxruntime's fusions": (
        "BranchwiseRMSNorm", "CausalConvWithState", "DynamicTimeWarping", "EngramGate", "GatedDeltaNet",
        "GatedRelativePositionBias", "HyperConnectionLowRankMix", "HyperConnectionPostMix", "HyperConnectionPreMix",
        "LinearAttention", "LinearAttentionGate", "MRotaryEmbedding", "MoEGroupRouter", "NGramHashMapping",
        "SwiGLU",
    ),
}
_BLOCKED = ("AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample")
_LAYOUT = "onnxruntime's layout of convolutions for the machine that optimized the model; save it at ORT_ENABLE_EXTENDED"

for _reason, _ops in _REASONS.items():
    for _op in _ops:
        refuse(_op, _reason, DOMAIN)
for _op in _BLOCKED:
    refuse(_op, _LAYOUT, f"{DOMAIN}.nchwc")
