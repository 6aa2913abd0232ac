"""Programs of StableHLO inside of TensorFlow's, which is how jax and Keras on jax or torch are saved."""

from __future__ import annotations

from typing import Any

from forge.frontends.convert import located
from forge.frontends.stablehlo import converters as stablehlo_converters
from forge.frontends.stablehlo.bytecode import read_bytecode
from forge.frontends.stablehlo.importer import convert_operations, converted_body
from forge.frontends.stablehlo.operators import used_operators
from forge.frontends.stablehlo.registry import REGISTRY as STABLEHLO
from forge.frontends.stablehlo.scope import StablehloScope, StablehloState, leaves
from forge.frontends.support import check_supported
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

_CPU = "CPU"


@converts("XlaCallModule", outputs="output*Tout")
def xla_call_module(
    g: Context, *inputs: Value, module: Any, platforms: tuple[str, ...] = (), dim_args_spec: tuple[str, ...] = (),
    version: int = 0, Sout: tuple[Any, ...] = (), has_token_input_output: bool = False, disabled_checks: tuple[str, ...] = (),  # noqa: N803
    function_list: tuple[Any, ...] = (), use_shardy_partitioner: bool = False,
) -> list[Value]:
    """What the main function gives; its first argument is the platform where there are several, then come sizes."""
    source = read_bytecode(module if isinstance(module, bytes) else str(module).encode(), "module")
    stablehlo_converters.load_all()
    check_supported(used_operators(source).values(), STABLEHLO)
    main = source.functions.get("main")
    if main is None:
        raise g.invalid("its module has no function @main; the model is invalid")
    state = StablehloState(size=g.scope.state.size, source=source, convert_operations=convert_operations, main=g.scope.graph)
    scope = StablehloScope(g.scope.graph, state, {"": 1}, prefix="", taken=g.scope.taken)
    leading: list[Value] = []
    if len(platforms) > 1:
        if _CPU not in platforms:
            raise g.unsupported(f"it was made for {', '.join(platforms)}; expected CPU among them; export the model again")
        leading.append(g.constant(platforms.index(_CPU), "int32"))
    for spec in dim_args_spec:
        operand, _, axis = spec.partition(".")
        leading.append(g.cast(g.size(inputs[int(operand)].shape[int(axis)]), "int32"))
    with located("its module"):
        return leaves(converted_body(scope, main.body, [*leading, *inputs], "function @main"))
