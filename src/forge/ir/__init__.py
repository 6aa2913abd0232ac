"""The graph IR: types, nodes, builder, text, verification, interpretation, edits."""

from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.types import ObjectType, OptionalType, SequenceType, TensorType, Type, UnrankedType

__all__ = [
    "Builder", "Graph", "Module", "Node", "ObjectType", "OptionalType", "SequenceType", "TensorType", "Type", "UnrankedType",
    "Value",
]
