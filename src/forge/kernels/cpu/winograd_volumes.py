"""Kernel family ``conv3d_winograd_ncdhwc``: convolution of volumes in the Winograd domain, slice by slice, or direct where few.

Weights in the Winograd domain take up to four times the room, and reading them is what a small volume takes. Where sizes are
known at run time only, the operator may have the weights of the direct sum too: the size at hand decides, once for each call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from forge import loops
from forge.kernels.cpu import conv_plan, tiles, winograd, winograd_plan
from forge.kernels.cpu.conv2d import convolution
from forge.kernels.cpu.spatial import Convolution3x3
from forge.loops.contract import KernelCall, kernel
from forge.tir.stmt import Function

LARGEST: Final = 16
"""Edge of the largest cube whose direct sum is considered."""


@kernel("conv3d_winograd_ncdhwc")
def conv3d_winograd_ncdhwc(call: KernelCall) -> Function:
    """3x3 convolution of slices in the Winograd domain, summed along the depth; of small volumes, the direct sum."""
    plain = call.operand(2)
    call = replace(call, operands=call.operands[:2])
    domain = winograd.conv2d_winograd_nchwc(call)
    if plain is None:
        return domain
    edge = _least_edge(call)
    target = replace(call.target, l2_cache=min(call.target.l2_cache, tiles.STACK_LIMIT) // 2)  # room for both on the stack
    small = replace(call, operands=(call.operands[0], plain), sizes={v.name: edge for v in call.scalars}, target=target)
    batch, _, *places, _ = call.results[0].shape
    is_small = loops.product([batch, *places]) < edge**3
    return call.function(loops.guard(is_small, convolution(small).body, domain.body))


def _least_edge(call: KernelCall) -> int:
    """Edge of the smallest cube that is estimated to be faster in the Winograd domain, where each run of slices reads weights."""
    plan = winograd_plan.plan_tasks(winograd.problem_of(call))
    channels = plan.in_channels * plan.window.slices, plan.out_vectors * plan.lanes

    def is_faster(edge: int) -> bool:
        def cube(slices: int) -> Convolution3x3:
            return Convolution3x3(plan.dtype, slices, *channels, edge, edge, plan.window.slices)

        run = min(plan.run, edge)
        domain = -(-edge // run) * winograd_plan.estimate(cube(run), plan.scheme, call.target)
        return domain < conv_plan.estimate(cube(edge), call.target)

    return next(filter(is_faster, range(1, LARGEST)), LARGEST)
