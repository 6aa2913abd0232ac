"""Write models in Python: modules with parameters, as in PyTorch, whose methods become functions of a graph."""

from forge.nn import layers, op, spec
from forge.nn.debugging import debug_func, print_
from forge.nn.defaults import get_default_dtype, set_default_dtype
from forge.nn.effects import Effect, IOEffect, KVCache
from forge.nn.extern import ExternModule, ObjectModule, SourceModule, add_extern, extern
from forge.nn.layers import *  # noqa: F403
from forge.nn.module import Module, ModuleDict, ModuleList, Mutator, ParameterDict, ParameterList, Sequential
from forge.nn.op import *  # noqa: F403
from forge.nn.spec import MethodSpec, ModuleSpec
from forge.nn.subroutine import SubroutineMixin
from forge.nn.tensor import Object, Parameter, Tensor, wrap_nested

__all__ = [
    "Effect",
    "ExternModule",
    "IOEffect",
    "KVCache",
    "MethodSpec",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ModuleSpec",
    "Mutator",
    "Object",
    "ObjectModule",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "SourceModule",
    "SubroutineMixin",
    "Tensor",
    "add_extern",
    "debug_func",
    "extern",
    "get_default_dtype",
    "layers",
    "op",
    "print_",
    "set_default_dtype",
    "spec",
    "wrap_nested",
]


__all__ += [*layers.__all__, *op.__all__]
