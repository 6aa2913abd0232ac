"""Calls, composites, tuples and tokens."""

from __future__ import annotations

from forge.frontends.stablehlo import module as stablehlo
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.importer import call
from forge.frontends.stablehlo.registry import converts
from forge.frontends.stablehlo.scope import Structure


@converts("call", domain="func")
def function_call(g: Context, *operands: Structure, callee: stablehlo.Symbol, no_inline: bool = False) -> list[Structure]:
    return call(g, callee.name, operands)


@converts("tuple")
def make_tuple(g: Context, *val: Structure) -> tuple[Structure, ...]:
    return val


@converts("get_tuple_element")
def get_tuple_element(g: Context, operand: Structure, *, index: int) -> list[Structure]:
    if not isinstance(operand, tuple) or not 0 <= index < len(operand):
        raise g.invalid(f"index: got {index}; expected that of an element of a tuple")
    return [operand[index]]


@converts("after_all")
@converts("create_token")
def token(g: Context, *inputs: Structure) -> list[Structure]:
    return [None]
