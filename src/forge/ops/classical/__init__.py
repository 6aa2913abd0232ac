"""Models of classical machine learning, an optional family."""

OPERATORS = {
    "forge.ops.classical.trees": ("tree_ensemble",),
    "forge.ops.classical.coupling": ("pairwise_coupling",),
}
