"""Products of rows with the matrices of their groups: layers of experts."""

from __future__ import annotations

from forge.compose import experts
from forge.errors import OpAttributeUnimplemented
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("_grouped_mm.default")
def grouped_product(g: Context, self: Value, mat2: Value, offs: Value | None = None, bias: Value | None = None) -> Value:
    """Rows ``offs[i - 1]`` to ``offs[i]`` of self [M, K] times matrix i of mat2 [G, K, N]; without ``offs``, a batch of products.

    Raises:
        OpAttributeUnimplemented: the groups are parts of other axes, as in gradients; or a bias is added.
    """
    if bias is not None or (self.rank, mat2.rank) != ((3, 3) if offs is None else (2, 3)):
        raise OpAttributeUnimplemented(
            f"got operands of rank {self.rank} and {mat2.rank}{' with a bias' if bias is not None else ''}; supported: groups of "
            "rows, (rows, K) and (groups, K, N), without a bias")
    if offs is None:
        return g.call("nn.batch_matmul", self, mat2)
    return g.cast(experts.grouped_product(g, self, mat2, offs), g.dtype)


@converts("grouped_mm_fallback.default", domain="transformers")
def grouped_product_of_transformers(g: Context, input: Value, weight: Value, offs: Value) -> Value:  # noqa: A002
    """What models of transformers call where torch has no such product of their element types."""
    return grouped_product(g, input, weight, offs)
