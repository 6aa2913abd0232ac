"""The functions of ``forge.nn``, by family; ``forge.nn.op`` collects them."""
