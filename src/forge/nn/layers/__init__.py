"""Layers: modules with parameters, or for functions that are used as such."""

from forge.nn.layers.activations import (
    GELU,
    Hardswish,
    LeakyReLU,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)  # fmt: skip
from forge.nn.layers.attention import Attention, MultiHeadAttention
from forge.nn.layers.convolutions import Conv1D, Conv2D, Conv3D, ConvTranspose1D, ConvTranspose2D, ConvTranspose3D
from forge.nn.layers.diffusion import TimestepEmbedding, Timesteps
from forge.nn.layers.linear import Dropout, Embedding, Flatten, Identity, Linear
from forge.nn.layers.normalization import (
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    RMSNorm,
)  # fmt: skip
from forge.nn.layers.pooling import (
    AdaptiveAvgPool2D,
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    Upsample,
)  # fmt: skip
from forge.nn.layers.recurrent import GRU, LSTM, RNN

__all__ = [
    "GELU", "GRU", "LSTM", "RNN", "AdaptiveAvgPool2D", "Attention", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNorm1D",
    "BatchNorm2D", "BatchNorm3D", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose1D", "ConvTranspose2D", "ConvTranspose3D",
    "Dropout", "Embedding", "Flatten", "GroupNorm", "Hardswish", "Identity", "InstanceNorm", "LayerNorm", "LeakyReLU", "Linear",
    "MaxPool1D", "MaxPool2D", "MaxPool3D", "MultiHeadAttention", "PReLU", "RMSNorm", "ReLU", "ReLU6", "SiLU", "Sigmoid",
    "Softmax", "Tanh", "TimestepEmbedding", "Timesteps", "Upsample",
]  # fmt: skip
