"""Modules of jaxlib: text of each form, and portable artifacts of each version."""

from __future__ import annotations

from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def texts(text: str, locations: bool = True) -> tuple[str, str]:
    """A module as text, in the generic form and in that of the dialects."""
    with make_ir_context():
        operation = ir.Module.parse(text).operation
        return (operation.get_asm(print_generic_op_form=True, enable_debug_info=locations),
                operation.get_asm(enable_debug_info=locations))


def artifact(text: str, version: str) -> bytes:
    """A module as a portable artifact. Raises ValueError if it has what the version did not know."""
    with make_ir_context():
        found: bytes = stablehlo.serialize_portable_artifact(ir.Module.parse(text), version, allow_other_dialects=True)
        return found


def text_of(data: bytes) -> str:
    """The text of a portable artifact, in the generic form, with locations."""
    with make_ir_context():
        module = stablehlo.deserialize_portable_artifact(ir.Context.current, data)
        found: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        return found
