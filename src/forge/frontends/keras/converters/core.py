"""Products with weights, tables, and layers that do nothing at inference."""

from __future__ import annotations

from typing import Any

from forge.compose.checks import checked_indices
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters import quantized
from forge.frontends.keras.converters.activations import activated
from forge.frontends.keras.registry import converts, refuse
from forge.ir.nodes import Value
from forge.ops.core.broadcast import for_product


def product(g: Context, x: Value, kernel: Value) -> Value:
    """``x`` of any rank times ``kernel``, [K, N]."""
    data = x if x.rank < 2 else for_product(g.builder, x, g.call("transpose", kernel, axes=(1, 0)), -1)[0]
    return g.call("nn.dense", data, g.call("transpose", kernel, axes=(1, 0)), units=kernel.shape[1])


@converts("Dense")
def dense(
    g: Context, x: Value, *, units: int, activation: Any = None, use_bias: bool = True, gptq_unpacked_column_size: Any = None
) -> Value:
    if g.layer.policy.mode:
        return activated(g, quantized.dense(g, x, units, use_bias), activation)
    found = product(g, x, g.weight("kernel"))
    return activated(g, g.call("add", found, g.weight("bias")) if use_bias else found, activation)


@converts("EinsumDense")
def einsum_dense(
    g: Context, x: Value, *, equation: str, output_shape: Any, activation: Any = None, bias_axes: Any = None,
    gptq_unpacked_column_size: Any = None,
) -> Value:
    if g.layer.policy.mode:
        sizes = output_shape if isinstance(output_shape, tuple) else (output_shape,)
        return activated(g, quantized.einsum_dense(g, x, equation, bias_axes is not None, sizes), activation)
    found = einsum(g, equation, x, g.weight("kernel"))
    return activated(g, g.call("add", found, g.weight("bias")) if bias_axes is not None else found, activation)


def einsum(g: Context, equation: str, *operands: Value) -> Value:
    """A sum of products; an ellipsis stands for the axes that the other letters leave."""
    if "..." not in equation:
        return g.call("einsum", *operands, equation=equation.replace(" ", ""))
    left, _, right = equation.replace(" ", "").partition("->")
    free = [c for c in "ZYXWVUTSRQPONMLK" if c not in equation]
    count = max(v.rank - len(part.replace("...", "")) for v, part in zip(operands, left.split(",")) if "..." in part)
    letters = "".join(free[:count])
    parts = [part.replace("...", letters) for part in left.split(",")]
    return g.call("einsum", *operands, equation=f"{','.join(parts)}->{right.replace('...', letters)}")


def looked_up(g: Context, table: Value, indices: Value) -> Value:
    """Rows of a table; an index out of it is an error of the run."""
    indices = g.cast(indices, "int64" if indices.dtype == "int64" else "int32")
    return g.call("take", table, checked_indices(g, indices, table.shape[0]), axis=0, mode="clip")


@converts("Embedding")
def embedding(
    g: Context, x: Value, *, input_dim: int, output_dim: int, mask_zero: bool = False, weights: Any = None
) -> tuple[Value, Value | None]:
    if g.layer.policy.mode:
        places = checked_indices(g, g.cast(x, "int64" if x.dtype == "int64" else "int32"), input_dim)
        found = quantized.embedded(g, places, output_dim)
    else:
        found = looked_up(g, g.weight("embeddings"), x)
    return found, g.call("not_equal", x, g.scalar(0, x)) if mask_zero else None


@converts("ReversibleEmbedding")
def reversible_embedding(
    g: Context, x: Value, reverse: bool = False, *, input_dim: int, output_dim: int, tie_weights: bool = True,
    mask_zero: bool = False, reverse_dtype: Any = None, logit_soft_cap: Any = None,
) -> tuple[Value, Value | None]:
    if g.layer.policy.mode:
        raise g.unsupported(f"quantization {g.layer.policy.mode!r}: not supported; expected a float one")
    if not reverse:
        mask = g.call("not_equal", x, g.scalar(0, x)) if mask_zero else None
        return looked_up(g, g.weight("embeddings"), x), mask
    kernel = g.call("transpose", g.weight("embeddings"), axes=(1, 0)) if tie_weights else g.weight("reverse_embeddings")
    if reverse_dtype is not None:
        x, kernel = g.cast(x, str(reverse_dtype)), g.cast(kernel, str(reverse_dtype))
    logits = product(g, g.cast(x, kernel.dtype), kernel)
    if logit_soft_cap:
        cap = g.scalar(logit_soft_cap, logits)
        logits = g.call("multiply", g.call("tanh", g.call("divide", logits, cap)), cap)
    return logits, None


@converts(
    "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout", "GaussianNoise",
    "AlphaDropout", "ActivityRegularization", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation",
    "RandomZoom", "RandomContrast", "RandomBrightness", "RandomColorJitter", "RandomColorDegeneration", "RandomErasing",
    "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
    "RandomSaturation", "RandomSharpness", "RandomShear", "RandomElasticTransform", "MixUp", "CutMix", "AugMix",
    "RandAugment", "StochasticDepth", "Solarization", "Equalization")
def identity(g: Context, x: Any, **training_only: Any) -> Any:
    """Layers that act only in training."""
    return x


@converts("LayerScale")
def layer_scale(g: Context, x: Value, *, init_values: Any = None, projection_dim: Any = None) -> Value:
    """Of ``keras.applications.convnext``."""
    return g.call("multiply", x, g.weight("gamma"))


@converts("Masking")
def masking(g: Context, x: Value, *, mask_value: Any = 0.0) -> tuple[Value, Value]:
    counts = g.call("any", g.call("not_equal", x, g.scalar(float(mask_value), x)), axis=(x.rank - 1,), keepdims=True)
    masked = g.call("multiply", x, g.cast(counts, x.dtype))
    return masked, g.call("squeeze", counts, axis=(x.rank - 1,))


@converts("InputLayer")
def input_layer(g: Context, x: Value, **declared: Any) -> Value:
    return x


@converts("SpectralNormalization")
def spectral_normalization(g: Context, x: Value, *, layer: Any, power_iterations: Any = None) -> Any:
    return g.run(g.layer.children["layer"], x)


@converts("Wrapper")
def wrapper(g: Context, x: Value, *, layer: Any) -> Any:
    return g.run(g.layer.children["layer"], x)


_PROGRAM = "it runs Python code of the file, which Forge never does; register a converter, or pass the model in memory"
refuse("Lambda", _PROGRAM)
refuse("TextVectorization", "texts are split by the program around the model; give it numbers")
refuse("StringLookup", "texts are looked up by the program around the model; give it numbers")
refuse("TFSMLayer", "it runs a SavedModel beside the file; load that with forge.from_tensorflow")
refuse("JaxLayer", "it runs Python code; pass the model in memory to forge.from_jax")
refuse("FlaxLayer", "it runs Python code; pass the model in memory to forge.from_jax")
refuse("TorchModuleWrapper", "it has a pickled module, which Forge never loads; pass the module to forge.from_torch")
refuse("Layer", "the base of layers computes nothing; register a converter of the class that is derived from it")
