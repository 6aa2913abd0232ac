"""Choosing words by their probabilities."""

from __future__ import annotations

from typing import Any

from forge import dims, dtypes
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context
from forge.ops.core.term import Term


def multinomial_from_uniform(
    prob: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    dtype: str = "int64",
    name: str = "multinomial_from_uniform",
) -> Tensor:
    """The first place at which the running sum of probabilities is above a number between 0 and 1.

    Args:
        prob: ``(batch, vocabulary)``; each row sums to 1.
        uniform_sample: ``(n, 1)``, from 0 to below 1.
        sample_indices: ``(n, 1)``: the row that each sample is of; by default its own, for ``n = batch``.
        dtype: of the result.

    Returns:
        ``(n, 1)``.

    Raises:
        OptionError: shapes do not fit.

    >>> prob = nn.Tensor.from_const([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]])
    >>> sample = nn.Tensor.from_const([[0.4], [0.9]])
    >>> nn.multinomial_from_uniform(prob, sample, nn.Tensor.from_const([[0], [1]])).numpy().tolist()
    [[1], [2]]
    """
    g = Context(name)
    table, sample = _operands(g, prob, uniform_sample)
    sums = g.call("cumsum", _rows(g, table, sample, sample_indices), axis=1)
    return g.tensor(_first_above(g, sums, sample, sums.shape[1], g.dtype(dtype)))


def _operands(g: Context, prob: Tensor, uniform_sample: Tensor) -> tuple[Value, Value]:
    table, sample = g.alike(prob, uniform_sample)
    if table.rank != 2 or sample.rank != 2 or dims.different(sample.shape[1], 1) or dims.equal(table.shape[1], 0):
        raise OptionError(f"{g.name}: got {table.type} and {sample.type}; expected (batch, vocabulary) and (n, 1)")
    return table, sample


def _check_alike(g: Context, what: str, given: Value, table: Value) -> None:
    if given.rank != table.rank or any(map(dims.different, given.shape, table.shape)):
        raise OptionError(f"{g.name}: {what}: got {given.type}; expected the sizes of {table.type}")


def _rows(g: Context, table: Value, sample: Value, indices: Tensor | None) -> Value:
    """The row of ``table`` that each sample is of."""
    if indices is None:
        if dims.different(table.shape[0], sample.shape[0]):
            raise OptionError(f"{g.name}: got {sample.shape[0]} samples for {table.shape[0]} rows; expected sample_indices")
        return table
    places = g.value(indices)
    if places.rank != 2 or not dtypes.is_integer(places.dtype) or any(map(dims.different, places.shape, sample.shape)):
        raise OptionError(f"{g.name}: sample_indices: got {places.type}; expected integers, as many as samples, {sample.type}")
    return g.call("take", table, g.reshape(places, places.shape[:1]), axis=0)


def _first_above(g: Context, sums: Value, sample: Value, size: Any, dtype: str) -> Value:
    """How many sums are not above the sample, at most the last place."""
    below = g.call("sum", g.cast(g.call("less_equal", sums, sample), "int64"), axis=(1,), keepdims=True)
    last = g.call("subtract", g.size(size), g.constant(1, "int64"))
    return g.cast(g.call("minimum", below, last), dtype)


def _kept(g: Context, sorted_prob: Value, top_p: Tensor, top_k: Tensor) -> Term:
    """Which elements of sorted rows are among the first ``top_k`` and begin below ``top_p``: at least one."""
    share, count = g.value(top_p), g.value(top_k)
    for what, given in (("top_p", share), ("top_k", count)):
        if given.rank != 2 or dims.different(given.shape[1], 1) or dims.different(given.shape[0], sorted_prob.shape[0]):
            raise OptionError(f"{g.name}: {what}: got {given.type}; expected ({sorted_prob.shape[0]}, 1)")
    before = Term(g, g.call("cumsum", sorted_prob, axis=1, exclusive=True))
    places = Term(g, g.call("expand_dims", g.count(g.extent(sorted_prob, 1), sorted_prob.shape[1]), axis=0))
    inside = g.call("logical_and", (before < Term(g, g.cast(share, sorted_prob.dtype))).value,
                    (places < Term(g, g.cast(count, "int64"))).value)  # fmt: skip
    first = g.call("equal", places.value, g.constant(0, "int64"))
    return Term(g, g.call("logical_or", inside, first))


def sample_top_p_top_k_from_sorted_prob(
    sorted_prob: Tensor,
    sorted_index: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    uniform_sample: Tensor,
    sample_indices: Tensor | None = None,
    name: str = "sample_top_p_top_k_from_sorted_prob",
) -> Tensor:
    """Words that are drawn among the most likely ones: at most ``top_k``, of a share ``top_p`` of the probability.

    Args:
        sorted_prob: ``(batch, vocabulary)``, each row in descending order.
        sorted_index: ``(batch, vocabulary)``: the words that these are of.
        top_p: ``(batch, 1)``.
        top_k: ``(batch, 1)``.
        uniform_sample: ``(n, 1)``, from 0 to below 1.
        sample_indices: ``(n, 1)``: the row that each sample is of; by default its own, for ``n = batch``.

    Returns:
        ``(n, 1)``, of the type of ``sorted_index``.

    Raises:
        OptionError: shapes do not fit.

    >>> c = nn.Tensor.from_const
    >>> prob, index = c([[0.5, 0.4, 0.1], [0.4, 0.3, 0.3]]), c([[2, 1, 0], [2, 0, 1]])
    >>> top_p, top_k, sample = c([[0.6], [0.9]]), c([[3], [2]]), c([[0.5], [0.6]])
    >>> nn.sample_top_p_top_k_from_sorted_prob(prob, index, top_p, top_k, sample, c([[0], [1]])).numpy().tolist()
    [[2], [0]]
    """
    g = Context(name)
    table, sample = _operands(g, sorted_prob, uniform_sample)
    kept = _kept(g, table, top_p, top_k)
    masses = kept.where(Term(g, table), 0).value
    total = g.call("sum", masses, axis=(1,), keepdims=True)
    running = _rows(g, g.call("cumsum", masses, axis=1), sample, sample_indices)
    scaled = g.call("multiply", sample, _rows(g, total, sample, sample_indices))
    count = g.call("sum", g.cast(kept.value, "int64"), axis=(1,), keepdims=True)
    last = g.call("subtract", _rows(g, count, sample, sample_indices), g.constant(1, "int64"))
    below = g.call("sum", g.cast(g.call("less_equal", running, scaled), "int64"), axis=(1,), keepdims=True)
    place = g.call("minimum", below, last)
    index = g.value(sorted_index)
    _check_alike(g, "sorted_index", index, table)
    words = _rows(g, index, sample, sample_indices)
    return g.tensor(g.call("gather", words, place, axis=1))


def renormalize_top_p_top_k_prob(
    prob: Tensor, sorted_prob: Tensor, top_p: Tensor, top_k: Tensor, name: str = "renormalize_top_p_top_k_prob"
) -> Tensor:
    """Probabilities with 0 for all but the most likely words, so that they sum to 1 again.

    Args:
        prob: ``(batch, vocabulary)``.
        sorted_prob: the same, each row in descending order.
        top_p: ``(batch, 1)``: the share that is kept, at least one word.
        top_k: ``(batch, 1)``: the number of words that are kept, at most.

    Returns:
        ``(batch, vocabulary)``; words as likely as the last one that is kept are kept, too.

    >>> nn.renormalize_top_p_top_k_prob([[0.1, 0.4, 0.5]], [[0.5, 0.4, 0.1]], [[0.6]], [[2]]).numpy().round(4).tolist()
    [[0.0, 0.4444, 0.5556]]
    """
    g = Context(name)
    table, ordered = g.alike(prob, sorted_prob)
    _check_alike(g, "sorted_prob", ordered, table)
    kept = _kept(g, ordered, top_p, top_k)
    infinite = g.scalar(float("inf"), ordered)
    least = g.call("min", g.call("where", kept.value, ordered, infinite), axis=(1,), keepdims=True)
    chosen = g.call("where", g.call("greater_equal", table, least), table, g.scalar(0, table))
    return g.tensor(g.call("divide", chosen, g.call("sum", chosen, axis=(1,), keepdims=True)))
