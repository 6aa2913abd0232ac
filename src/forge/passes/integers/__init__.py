"""Products of quantized numbers are summed as integers, and stay integers up to the next product.

``nn.dense(qnn.dequantize(%x, s, z), qnn.dequantize(w, t))`` -->
``multiply(cast(subtract(nn.dense(%u, w, out_dtype="int32"), z * sum(w))), s * t)``, where ``%u`` is ``%x`` as uint8, and the same
for products of ``subtract(cast(%x, int32), z)`` with constants, of bytes that a graph multiplies as they are, of whatever signs,
and for convolutions. Sums of integers are exact: the result is rounded once where sums of floats are rounded at each step. The
products run on all CPUs with the same integers.

Data of 16 bits are multiplied as int16: ``multiply(cast(subtract(nn.dense(%i, w, out_dtype="int32"), z * sum(w))), s * t)``, or
a sum of several of these. Of such data, 3x3 convolutions of large images stay in float32, where they take a fourth to four ninths
of the products (``use_winograd``).
"""

from __future__ import annotations

from functools import partial

from forge.ir.edits.rewrite import Rule
from forge.ir.graph import Graph
from forge.options import CompileOptions
from forge.passes.base import rewriting, rules_of
from forge.passes.integers import convolutions, moves, products, steps, tables

AROUND = [found for module in (products, moves, steps, tables) for found in rules_of(module.__name__)]


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of nodes that were replaced by operators on integers, or on constants around them."""
    convolution = Rule(
        "convolution_to_integers", ("nn.conv1d", "nn.conv2d"), partial(convolutions.convolution_to_integers, options))
    return rewriting(convolution, *rules_of(convolutions.__name__), *AROUND)(graph, options)
