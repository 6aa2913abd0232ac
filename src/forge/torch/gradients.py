"""Results of compiled code where autograd records: they say so when somebody asks for gradients, in the place of wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from forge.errors import GradientError


def refusing(call: Callable[..., Sequence[Any]], module: GraphModule) -> Callable[..., Sequence[Any]]:
    """``call``, which stands for ``module``, with results that require gradients where they would in eager PyTorch.

    `GradientError` is raised where one is asked for.
    """
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    values = [node.meta.get("example_value") if isinstance(node, Node) else node for node in output.args[0]]
    requires_grad = [isinstance(value, torch.Tensor) and value.requires_grad for value in values]

    def refused(*arguments: Any) -> Sequence[Any]:
        anchor = next((a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad), None)
        with torch.no_grad():
            results = call(*arguments)
        if anchor is None:
            return results
        return [
            _Refused.apply(anchor, result) if required and not result.requires_grad else result
            for result, required in zip(results, requires_grad)
        ]

    return refused


class _Refused(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise GradientError(
            "torch.compile(backend='forge'): got a request for gradients; expected inference: compiled code has none; call the "
            "model in torch.no_grad() or torch.inference_mode(), or give options={'fallback': True}, with which it runs eagerly "
            "where autograd records"
        )
