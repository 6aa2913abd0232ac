"""Operators without a converter, and why."""

from __future__ import annotations

from forge.frontends.tensorflow.registry import refuse

_REASONS = {
    "it reads files or encoded data; decode outside of the model, and name what it gives as an input with shape=": (
        "DecodeAndCropJpeg", "DecodeBase64", "DecodeBmp", "DecodeCompressed", "DecodeCSV", "DecodeGif", "DecodeImage",
        "DecodeJSONExample", "DecodeJpeg", "DecodePaddedRaw", "DecodePng", "DecodeProtoV2", "DecodeRaw", "DecodeWav",
        "EncodeBase64",
        "EncodeJpeg", "EncodePng", "EncodeProto", "EncodeWav", "ParseExample", "ParseExampleV2", "ParseSequenceExample",
        "ParseSequenceExampleV2", "ParseSingleExample", "ParseSingleSequenceExample", "ParseTensor", "ReadFile",
        "SerializeTensor",
        "WriteFile",
    ),
    "it works on bytes of texts; process texts outside of the model, and name what it gives as an input with shape=": (
        "AsString", "EditDistance", "ReduceJoin", "RegexFullMatch", "RegexReplace", "StaticRegexFullMatch", "StaticRegexReplace",
        "StringFormat", "StringJoin", "StringLength", "StringLower", "StringNGrams", "StringSplit", "StringSplitV2",
        "StringStrip",
        "StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong", "StringToNumber", "StringUpper", "Substr",
        "UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnicodeScript", "UnicodeTranscode", "UnsortedSegmentJoin",
    ),
    "it calls Python; export the model without functions of Python": ("EagerPyFunc", "PyFunc", "PyFuncStateless"),
    "it feeds a model with data; name what it gives as an input with shape=": (
        "AnonymousIterator", "BatchDataset", "FIFOQueueV2", "Iterator", "IteratorGetNext", "IteratorV2", "MakeIterator",
        "MapDataset",
        "OneShotIterator", "PaddingFIFOQueueV2", "QueueDequeueManyV2", "QueueDequeueV2", "QueueEnqueueV2", "RandomShuffleQueueV2",
        "TensorDataset", "TensorSliceDataset",
    ),
    "an operator of XLA's bridge before StableHLO; export with jax2tf of jax 0.4.31 or newer, which writes XlaCallModule": (
        "XlaConv", "XlaConvV2", "XlaDot", "XlaDotV2", "XlaDynamicSlice", "XlaDynamicUpdateSlice", "XlaGather", "XlaPad",
        "XlaReduce",
        "XlaReducePrecision", "XlaReduceWindow", "XlaRngBitGenerator", "XlaScatter", "XlaSelectAndScatter", "XlaSort",
        "XlaVariadicReduceV2", "XlaVariadicSort",
    ),
    "ragged tensors are not converted; convert them to dense ones outside of the model": (
        "RaggedBincount", "RaggedRange", "RaggedCross", "RaggedGather", "RaggedTensorFromVariant", "RaggedTensorToSparse",
        "RaggedTensorToTensor",
        "RaggedTensorToVariant", "RaggedCountSparseOutput",
    ),
    "an operator on sparse tensors that is not converted; make them dense outside of the model": (
        "DenseCountSparseOutput", "DenseToSparseSetOperation", "DeserializeSparse", "SerializeManySparse", "SerializeSparse",
        "SparseAdd", "SparseBincount", "SparseConcat", "SparseCountSparseOutput", "SparseCross", "SparseCrossHashed",
        "SparseCrossV2",
        "SparseMatMul", "SparseReduceMax", "SparseReduceSum", "SparseSlice", "SparseSoftmax", "SparseSparseMaximum",
        "SparseSparseMinimum", "SparseSplit",
    ),
    "it trains a model; export it for inference": (
        "ApplyAdam", "ApplyGradientDescent", "ApplyMomentum", "ApplyRMSProp", "Conv2DBackpropFilter", "Conv3DBackpropFilterV2",
        "CTCLoss", "DepthwiseConv2dNativeBackpropFilter", "FusedBatchNormGrad", "FusedBatchNormGradV3", "MaxPoolGrad",
        "AvgPoolGrad",
        "ReluGrad", "ResourceApplyAdam", "ResourceApplyGradientDescent", "ResourceApplyKerasMomentum", "ResourceApplyMomentum",
        "SigmoidGrad", "TanhGrad",
    ),
    "beam search and greedy decoding give texts of unknown lengths as sparse tensors; decode outside of the model": (
        "CTCBeamSearchDecoder", "CTCBeamSearchDecoderV2", "CTCGreedyDecoder",
    ),
    "layers of cuDNN keep their weights in its own order; export the model for CPUs": ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"),
}
"""By what to do instead."""

for _reason, _ops in _REASONS.items():
    for _op in _ops:
        refuse(_op, _reason)
