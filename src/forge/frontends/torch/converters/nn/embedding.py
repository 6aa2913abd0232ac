"""Embeddings and dropout."""

from __future__ import annotations

from forge.compose import norms, randomness
from forge.compose.checks import checked_indices
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.random.distributions import seed_of
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_MODES = ("sum", "mean", "max")


@converts("embedding.default")
def embedding(
    g: Context, weight: Value, indices: Value, *, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return g.call("take", weight, checked_indices(g, indices, weight.shape[0], from_end=False), axis=0)


@converts("embedding_renorm.default")
def embedding_renorm(g: Context, self: Value, indices: Value, *, max_norm: float, norm_type: float) -> Value:
    indices = checked_indices(g, indices, self.shape[0], from_end=False)
    return norms.limited_rows(g, self, indices, most=max_norm, p=norm_type)


def _bags(*targets: str, wraps: bool) -> None:
    """``wraps``: a negative padding_idx counts from the end; else it stands for none."""

    @converts(*targets)
    def embedding_bag(
        g: Context, weight: Value, indices: Value, offsets: Value, per_sample_weights: Value | None = None,
        *, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> list[Value | None]:
        """One vector for each bag; the other results, which only the gradient reads, are not computed."""
        if any(g.wants(k) for k in range(1, g.num_outputs)):
            raise g.unsupported("its results for gradients are read; supported: the first result")
        padding = padding_idx
        if padding is not None and padding < 0:
            rows = weight.shape[0]
            padding = rows + padding if wraps and isinstance(rows, int) else None
        indices, offsets = (g.cast(v, "int64") for v in (indices, offsets))
        indices = checked_indices(g, indices, weight.shape[0], from_end=False)
        if indices.rank == 1:
            offsets = checked_indices(g, offsets, indices.shape[0] + 1, from_end=False, what="an offset")
        options = {"mode": _MODES[mode], "include_last_offset": include_last_offset, "padding_idx": padding}
        return [g.call("nn.embedding_bag", weight, indices, offsets, per_sample_weights, **options), None, None, None]


_bags("embedding_bag.default", "embedding_bag.padding_idx", wraps=True)
_bags("_embedding_bag.default", "_embedding_bag_forward_only.default", wraps=False)


@converts("native_dropout.default")
def native_dropout(g: Context, input: Value, *, p: float, train: bool | None) -> list[Value]:  # noqa: A002
    """The result, and which elements are kept; at random in training, unless ``train`` is False."""
    return list(randomness.known_dropout(g, input, 0 if train is False else p, seed=seed_of(g)))


@converts("dropout.default")
def dropout(g: Context, input: Value, *, p: float, train: bool) -> Value:  # noqa: A002
    return native_dropout(g, input, p=p, train=train)[0] if train else input


def _special_dropout(op: str, of_channels: bool, keeps_variance: bool) -> None:
    """``of_channels``: whole channels are dropped; ``keeps_variance``: to what SELU tends to, with mean and variance kept."""

    @converts(f"{op}.default")
    def convert(g: Context, input: Value, *, p: float, train: bool) -> Value:  # noqa: A002
        if not train or p == 0:
            return input
        if p == 1:
            return g.call("multiply", input, g.scalar(0, input))
        return randomness.special_dropout(
            g, input, p, of_channels=of_channels, keeps_variance=keeps_variance, seed=seed_of(g))


_special_dropout("feature_dropout", True, False)
_special_dropout("alpha_dropout", False, True)
_special_dropout("feature_alpha_dropout", True, True)
