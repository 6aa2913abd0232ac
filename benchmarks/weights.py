"""Seeded random weights under which a network's output depends on its input.

Networks at their default initialization often answer the same whatever they are shown, and then agree with any wrong
compilation. Here activations keep their scale through the depth, normalization layers have statistics and affine
parameters of their own, attention is peaked, and the outputs of the head are centred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_NORMALIZATIONS = (*_BATCH_NORMS, nn.LayerNorm, nn.GroupNorm)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_RESIDUAL_SCALE = 0.4


def randomize(network: nn.Module, calibration: Sequence[torch.Tensor], seed: int = 0) -> None:
    """Replaces all weights of ``network`` in place and leaves it in evaluation mode.

    Args:
        network: The network; its last layer is found as ``network.head``, if it has one.
        calibration: A batch of inputs from which batch-norm statistics and the head's bias are taken.
        seed: Of the random generator.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in network.modules():
            for name, parameter in module.named_parameters(recurse=False):
                _fill(module, name, parameter, generator)
        _soften_residuals(network)
        _measure_statistics(network, calibration)
        _centre_head(network, calibration)


def _fill(module: nn.Module, name: str, parameter: nn.Parameter, generator: torch.Generator) -> None:
    if isinstance(module, _NORMALIZATIONS) or hasattr(module, "is_normalization"):
        if name == "weight":
            parameter.uniform_(0.5, 1.5, generator=generator)
        else:
            parameter.normal_(0.0, 0.2, generator=generator)
    elif isinstance(module, nn.Embedding):
        parameter.normal_(0.0, 0.5, generator=generator)
    elif parameter.ndim >= 2:
        parameter.normal_(0.0, _gain(module) / math.sqrt(_fan_in(module, parameter)), generator=generator)
    else:
        parameter.normal_(0.0, 0.1, generator=generator)


def _gain(module: nn.Module) -> float:
    return math.sqrt(2.0) if isinstance(module, nn.Conv2d | nn.Conv3d | nn.Linear) else 1.0


def _fan_in(module: nn.Module, parameter: nn.Parameter) -> int:
    """Number of terms summed into one output element."""
    if isinstance(module, _TRANSPOSED):
        return int(module.in_channels * math.prod(module.kernel_size) // math.prod(module.stride))
    if hasattr(module, "weights_are_input_major"):
        return int(parameter.shape[0])
    return math.prod(parameter.shape[1:])


def _soften_residuals(network: nn.Module) -> None:
    """Trained residual branches add little to their input; at full strength depth amplifies rounding errors."""
    for module in network.modules():
        branch = getattr(module, "residual", None)
        if isinstance(branch, nn.Sequential):
            last = [norm for norm in branch.modules() if isinstance(norm, _BATCH_NORMS)][-1]
            last.weight.mul_(_RESIDUAL_SCALE)
            last.bias.mul_(_RESIDUAL_SCALE)


def _measure_statistics(network: nn.Module, calibration: Sequence[torch.Tensor]) -> None:
    norms = [module for module in network.modules() if isinstance(module, _BATCH_NORMS)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    network.eval()
    for norm in norms:
        norm.train()
    if norms:
        network(*calibration)
    network.eval()


def _centre_head(network: nn.Module, calibration: Sequence[torch.Tensor]) -> None:
    head = getattr(network, "head", None)
    if head is None:
        return
    last = head[-1] if isinstance(head, nn.Sequential) else head
    outputs: list[torch.Tensor] = []
    hook = last.register_forward_hook(lambda _module, _arguments, output: outputs.append(output))
    network(*calibration)
    hook.remove()
    channel = 1 if outputs[0].ndim >= 4 else outputs[0].ndim - 1
    others = [axis for axis in range(outputs[0].ndim) if axis != channel]
    last.bias.sub_(outputs[0].mean(dim=others))
