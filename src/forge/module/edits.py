"""How ``IRModule`` is changed, in place: whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

from forge import dims, errors
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError, OptionError
from forge.ir import retype
from forge.ir.edits.edit import Editor
from forge.ir.edits.edit import edit as editing
from forge.ir.edits.rebatch import check_batch, replace_batch
from forge.ir.edits.rewrite import Rule, apply
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.saved import hashing
from forge.ir.saved.statistics import Calibration
from forge.ir.types import TensorType
from forge.ir.verifier import verify
from forge.module import sessions
from forge.passes import inline_calls
from forge.passes import partition as partitions
from forge.passes import partition_for_tensorrt as tensorrt

if TYPE_CHECKING:
    from forge.module import IRModule


def _deprecated(method: str, instead: str) -> None:
    """Warns at the call of a method of `IRModule`."""
    message = f"IRModule.{method} is deprecated and will be removed in a future release; {instead}"
    errors.warn(message, DeprecationWarning)


def edit(ir: IRModule, graph: str = "main") -> AbstractContextManager[Editor]:
    """Edits of one graph that all happen or none: ``with ir.edit() as e: e.rename(node, "stem")``.

    The editor inserts, replaces, removes, renames and rewires nodes, sets attributes, data and outputs, and grafts other
    graphs. At the end of the block order and types are restored and the graph is verified; if that fails, or the block
    raises, the graph is as it was before.

    Raises:
        InvalidGraphError: there is no such graph, or the edited one breaks a rule.
    """
    return editing(_graph(ir, graph), ir._module)


def rewrite(ir: IRModule, *rules: Rule, graph: str = "main") -> int:
    """Applies rules (see ``forge.ir.edits.rewrite``) until nothing matches; returns how often one did.

    Raises:
        InvalidGraphError: there is no such graph, or a rule breaks it; it is unchanged then.
    """
    wrong = [rule for rule in rules if not isinstance(rule, Rule)]
    if wrong:
        raise OptionError(f"rewrite: got {wrong[0]!r}; expected a Rule (forge.ir.edits.rewrite)")
    return apply(_graph(ir, graph), rules, ir._module)


def _graph(ir: IRModule, name: str) -> Graph:
    if isinstance(name, str) and name == "main":
        return ir.main
    if not isinstance(name, str) or name not in ir.graphs:
        raise InvalidGraphError(f"graph {name!r}: does not exist; expected one of: {', '.join(ir.graphs)}")
    return ir.graphs[name]


def set_batch_size(ir: IRModule, batch_size: int) -> None:
    """Sets the first dimension of every input that has the batch dimension of the first input. In place.

    In a model made for one batch size, sizes are rewritten so that every element is computed as before. In a model with a
    symbolic batch, the symbol is replaced. Functions of the module are changed likewise.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, the model fixes its batch, or it combines elements of the batch
            (a reduction over them); the message names the node, and the module is as before. A model that was made for one
            batch size is refused too where it moves elements, or where an operator may combine them.
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"set_batch_size: got {batch_size!r}; expected a positive integer")
    given = [v for v in ir.main.inputs if v.name not in ir.params]
    inputs = [v for v in given if isinstance(v.type, TensorType) and v.rank > 0]
    if not inputs:
        raise ValueError("set_batch_size: the model has no input with a dimension")
    ir._verified()
    old, new = inputs[0].shape[0], int(batch_size)
    if isinstance(old, DimExpr):
        check_batch(ir._module, inputs, old)
        changed = retype.substitute_symbols(ir._module, _solve(old, new))
    else:
        changed = replace_batch(ir._module, inputs, old, new)
    verify(changed)
    changed.calibration = Calibration(hashing.moved_statistics(ir._module, changed))
    ir._module = changed


def as_session(ir: IRModule, states: Mapping[str, str] | None = None, keep: Sequence[str] = ()) -> None:
    """Makes inputs that outputs replace states, which a session keeps from call to call: callers send tokens only. In place.

    It is done in all public functions; what one of them leaves in a state, the others find. A function that has only the
    output writes the state, one that has only the input reads it. States start empty, and grow as they are appended to.

    Inputs that follow from the states and the tokens are computed where sizes of other inputs say how: ``attention_mask`` is
    all ones, ``position_ids`` and ``cache_position`` count on from what is in the cache, and ``use_cache_branch`` of a merged
    decoder says whether anything is in it.

    Args:
        states: names of outputs by those of the inputs that they replace. None: those that exporters write are recognized,
            ``past_key_values.0.key`` and ``present.0.key``, ``input.x`` and ``output.x``, ``past_0`` and ``present_0``.
        keep: inputs that callers send though they could be computed, such as the mask of padded batches.

    Raises:
        OptionError: ``states`` or ``keep`` has a name that does not exist, or nothing is recognized.
        InvalidGraphError: an output does not fit its input, or functions mean different tensors by one name.
    """
    if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
        raise OptionError(f"as_session: keep: got {keep!r}; expected names of inputs")
    edited(ir, lambda module: sessions.as_session(module, states, keep))
    ir._verified()


def partition(
    ir: IRModule, backend: str, supported: Callable[[Node], bool],
    keep: Callable[[Sequence[Node], Sequence[Value]], bool] = lambda nodes, inputs: True,
) -> int:
    """Moves what ``backend`` can run out of ``main`` into functions, in place; returns how many.

    A function holds a largest connected part of the graph that can run as one. Models with functions compile and run as
    before: every function through Forge's own code.

    Args:
        backend: name of the functions and their attribute ``Compiler``.
        supported: whether the backend can run a node. Constants go with their users; control flow stays.
        keep: whether a part, given by its nodes and the values it reads, becomes a function.

    Raises:
        InvalidGraphError: ``main`` breaks a rule of the IR.
    """
    for name, function in (("supported", supported), ("keep", keep)):
        if not callable(function):
            raise OptionError(f"partition: {name}: got {function!r}; expected a function")
    return edited(ir, lambda module: partitions.run(module, backend, supported, keep))


def partition_for_tensorrt(
    ir: IRModule, remove_stacks: bool = True, simplify_batch_matmul: bool = True, simplify_scalar_add: bool = True,
    remove_no_mac_subgraphs: bool = True,
) -> None:
    """Moves what TensorRT can run out of ``main`` into functions, in place; see `partition`. Deprecated.

    Args:
        remove_stacks: write ``stack``, which TensorRT lacks, as a concatenation.
        simplify_batch_matmul: write batched products by one constant matrix as ``nn.dense``.
        simplify_scalar_add: take additions of scalars, too, as tensors of the other operand's rank.
        remove_no_mac_subgraphs: leave parts in ``main`` that neither multiply and accumulate nor reduce.

    Raises:
        OptionError: a flag is not a bool; InvalidGraphError: ``main`` breaks a rule of the IR.
    """
    _deprecated("partition_for_tensorrt", "use forge.ONNXModule for TensorRT, or IRModule.partition, which takes any backend")
    flags = (remove_stacks, simplify_batch_matmul, simplify_scalar_add, remove_no_mac_subgraphs)
    edited(ir, lambda module: tensorrt.run(module, *flags))


def inline_partitions(ir: IRModule) -> None:
    """Puts the bodies of all functions back into ``main``, in place; drops the functions. Deprecated.

    It undoes `partition` and `partition_for_tensorrt`: the module equals what it was, names included, but for stacks and
    batched products that the latter had written in another way.
    """
    instead = "use forge.ONNXModule for TensorRT; IRModule(ir, inline_partitions=True) makes one without functions"
    _deprecated("inline_partitions", instead)
    inline(ir)


def inline(ir: IRModule) -> None:
    def inline(module: Module) -> int:
        count = sum(inline_calls.run(graph, module) for graph in module.public.values())
        module.graphs = module.public
        return count

    edited(ir, inline)


def edited(ir: IRModule, edit: Callable[[Module], int]) -> int:
    """Edits a copy, which takes the module's place if nothing was raised."""
    changed = ir._verified().copy()
    count = edit(changed)
    ir._module = changed
    return count



def _solve(dim: DimExpr, size: int) -> dict[str, Dim]:
    solution = dims.solve(dim, size)
    if solution is None:
        raise ValueError(f"set_batch_size: got {size}; the batch dimension is {dim}; expected a size that it can have")
    return dict([solution])
