"""Operations in the forms that StableHLO, CHLO and func print.

Most are operands, attributes by keywords (``dims = [0, 1]``), a dictionary of other attributes, and types; `_KEYWORDS` says what
the keywords are. Others have a method each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from forge.frontends.stablehlo import spelling
from forge.frontends.stablehlo.module import Block, FunctionType, Opaque, Operation, Symbol, TensorType, Type, Value
from forge.frontends.stablehlo.text.operations import OperationReader

_KEYWORDS = {
    "iota": {"dim": "iota_dimension"},
    "dynamic_iota": {"dim": "iota_dimension"},
    "dynamic_slice": {"sizes": "slice_sizes"},
    "broadcast": {"sizes": "broadcast_sizes"},
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "cholesky": {"lower": "lower"},
    "concatenate": {"dim": "dimension"},
    "get_dimension_size": {"dim": "dimension"},
    "set_dimension_size": {"dim": "dimension"},
    "dot": {"precision": "precision_config"},
    "dot_general": {"precision": "precision_config", "algorithm": "algorithm"},
    "einsum": {"config": "einsum_config"},
    "unary_einsum": {"config": "einsum_config"},
    "fft": {"type": "fft_type", "length": "fft_length"},
    "reverse": {"dims": "dimensions"},
    "pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "transpose": {"dims": "permutation"},
    "rng": {"distribution": "rng_distribution"},
    "rng_bit_generator": {"algorithm": "rng_algorithm"},
    "top_k": {"k": "k", "is_stable": "is_stable"},
}
"""What keywords of operations stand for."""
_WINDOW = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal"}  # fmt: skip
_POSITIONAL = {"compare": ("comparison_direction", "compare_type")}
_WITHOUT_DIALECT = {"call": "func.call", "return": "func.return", "func": "func.func", "module": "builtin.module"}
_OF_OTHER_TYPES = ("complex", "tuple", "iota")
"""Operations of which the one type that they print is that of the result alone."""
_FORMAT = re.compile(r"e(\d{1,4})m(\d{1,4})\Z")
_DIALECTS = ("stablehlo", "chlo", "mhlo", "func")


class PrettyReader(OperationReader):
    """Reads operations in the forms of their dialects."""

    def pretty(self, operation: Operation, count: int) -> None:
        operation.name = _WITHOUT_DIALECT.get(operation.name, operation.name)
        form = _FORMS.get(operation.name)
        if form is not None:
            form(self, operation)
            return
        dialect, _, name = operation.name.partition(".")
        if dialect not in _DIALECTS:
            self.fail(f"{operation.name}: its own form is not known; expected the generic one: mlir-opt --mlir-print-op-generic")
        if self.at("(") and _GENERIC.match(self.text, self.stop):
            self.generic(operation)
            return
        self._listed(operation, name)
        self.optional_attributes(operation)
        self._types(operation, name, count)

    def _listed(self, operation: Operation, name: str) -> None:
        """Operands, and attributes by keyword or place."""
        places = iter(_POSITIONAL.get(name, ()))
        is_enclosed = self.accept("(")
        while self.kind in ("value", "word") and not self.at("loc"):
            if self.kind == "value":
                operation.operands.append(self.value())
                if self.at("["):
                    self._ranges(operation, name)
            else:
                self._attribute_of(operation, name, places)
            if not self.accept(","):
                break
        if is_enclosed:
            self.expect(")")

    def _attribute_of(self, operation: Operation, name: str, places: Any) -> None:
        word = self.take()
        if not self.accept("="):
            if (place := next(places, None)) is None:
                self.fail(f"{operation.name}: got {word!r}; expected keyword = value, or operands")
            operation.attributes[place] = word
        elif word in ("contracting_dims", "batching_dims") and name == "dot_general":
            numbers = operation.attributes.setdefault("dot_dimension_numbers", spelling.structure("dot", {}, self.fail))
            kind = word.replace("_dims", "_dimensions")
            numbers[f"lhs_{kind}"] = self.integers()
            self.expect("x")
            numbers[f"rhs_{kind}"] = self.integers()
        elif word == "format" and name == "reduce_precision":
            found = _FORMAT.match(self.take_kind("word", "bits of exponent and mantissa, such as e5m10"))
            if found is None:
                self.fail("reduce_precision: expected bits of exponent and mantissa, such as e5m10")
            operation.attributes |= {"exponent_bits": int(found[1]), "mantissa_bits": int(found[2])}
        else:
            known = _KEYWORDS.get(name, {})
            if word not in known:
                self.fail(f"{operation.name}: got keyword {word!r}; expected one of: {', '.join(known)}")
            operation.attributes[known[word]] = self.plain()

    def plain(self) -> Any:
        """A value without a type: a number, a word, a list of such, a structure ``<...>``, or an attribute."""
        if self.kind == "number":
            return self.integer()
        if self.kind == "string":
            return self.string()
        if self.token in ("true", "false"):
            return self.take() == "true"
        if self.at("<"):
            return self.structure("dot_algorithm")
        if self.kind == "word" and self.token not in ("array", "dense", "unit"):
            return self.take()
        if not self.at("["):
            return self.attribute()
        self.enter()
        self.take()
        found: list[Any] = []
        if not self.accept("]"):
            found.append(self.plain())
            while self.more("]"):
                found.append(self.plain())
        self.leave()
        return found

    def _ranges(self, operation: Operation, name: str) -> None:
        """``[0:4:2, 1:3]`` of slices, ``[1]`` of get_tuple_element."""
        self.expect("[")
        if name == "get_tuple_element":
            operation.attributes["index"] = self.integer()
            self.expect("]")
            return
        starts: list[int] = []
        limits: list[int] = []
        strides: list[int] = []
        while not self.accept("]"):
            starts.append(self.integer())
            self.expect(":")
            limits.append(self.integer())
            strides.append(self.integer() if self.accept(":") else 1)
            if not self.accept(",") and not self.at("]"):
                self.unexpected("',' or ']'")
        operation.attributes |= {"start_indices": starts, "limit_indices": limits, "strides": strides}

    def _types(self, operation: Operation, name: str, count: int) -> None:
        """``: (A, B) -> C``; ``: A, B -> C``; or types alone, from which those of operands and results follow."""
        if not self.accept(":"):
            if operation.operands or count:
                self.unexpected("':' and types")
            return
        types = self.types()
        if self.accept("->"):
            self.set_types(operation, FunctionType(tuple(types), tuple(self.type_or_types())))
        elif len(types) == 1 and isinstance(types[0], FunctionType):
            self.set_types(operation, types[0])
        else:
            self._same_types(operation, name, count, types)

    def _same_types(self, operation: Operation, name: str, count: int, types: list[Type]) -> None:
        if name == "select":
            types = [types[0], types[-1], types[-1]]
        elif len(types) == 1:
            types = types * len(operation.operands) if operation.operands else types
        if name not in _OF_OTHER_TYPES and operation.operands:
            self.check_operands(operation, types)
        results = [] if count == 0 else [types[-1]] if count == 1 else types
        operation.results = [Value(kind) for kind in results]

    def constant(self, operation: Operation) -> None:
        """``constant dense<...> : type``."""
        if self.at("("):
            self.generic(operation)
            return
        self.optional_attributes(operation)
        if self.token not in ("dense", "dense_resource"):
            self.unexpected("dense<...>")
        value, kind = self.elements()
        operation.attributes["value"] = value
        operation.results = [Value(kind)]

    def module(self, operation: Operation) -> None:
        """``module @name attributes {...} { ... }``."""
        if self.kind == "symbol":
            operation.attributes["sym_name"] = self.symbol_name()
        self.optional_attributes(operation, "attributes")
        operation.regions = [self.region()]

    def function(self, operation: Operation) -> None:
        """``func.func public @f(%a: A {...}) -> (B {...}) attributes {...} { ... }``."""
        given = operation.attributes
        if self.token in ("public", "private", "nested") and self.kind == "word":
            given["sym_visibility"] = self.take()
        given["sym_name"] = self.symbol_name()
        arguments, given["arg_attrs"] = self._signature()
        results: list[Type] = []
        if self.accept("->"):
            if self.at("("):
                found, given["res_attrs"] = self._signature()
                results = [value.type for value in found]
            else:
                results = [self.type()]
        given["function_type"] = FunctionType(tuple(value.type for value in arguments), tuple(results))
        self.optional_attributes(operation, "attributes")
        if not self.at("{"):
            operation.regions = [Block()]
            return
        if any(argument.name for argument in arguments) and not all(argument.name for argument in arguments):
            self.fail("got arguments without names; expected %name: type for all of a function with a body")
        is_labelled = not any(argument.name for argument in arguments)
        operation.regions = [self.region(None if is_labelled else arguments)]

    def _signature(self) -> tuple[list[Value], list[dict[str, Any]]]:
        """``(%a: type {...} loc(...), ...)``, with names or without; and attributes."""
        values: list[Value] = []
        attributes: list[dict[str, Any]] = []
        self.expect("(")
        if self.accept(")"):
            return values, attributes
        while True:
            name = ""
            if self.kind == "value":
                name = self.take()[1:]
                self.expect(":")
            values.append(Value(self.type(), name))
            attributes.append(self.dictionary() if self.at("{") else {})
            if self.at("loc"):
                self.locate(values[-1])
            if not self.more(")"):
                return values, attributes

    def call(self, operation: Operation) -> None:
        """``call @f(%a) {...} : (A) -> B``, and ``custom_call``."""
        name = self.symbol_name()
        is_custom = operation.name == "stablehlo.custom_call"
        operation.attributes["call_target_name" if is_custom else "callee"] = name if is_custom else Symbol(name)
        self.expect("(")
        operation.operands = self.values(")")
        self.optional_attributes(operation)
        self.expect(":")
        self.set_types(operation, self.function_type())

    def composite(self, operation: Operation) -> None:
        """``composite "name" %a, %b {...} : (A, B) -> C``."""
        operation.attributes["name"] = self.string()
        self._listed(operation, "composite")
        if self.accept("("):
            operation.regions = [self.region()]
            while self.more(")"):
                operation.regions.append(self.region())
        self.optional_attributes(operation)
        self.expect(":")
        self.set_types(operation, self.function_type())

    def convolution(self, operation: Operation) -> None:
        """``convolution(%a, %b) dim_numbers = [...], window = {...} {...} : (A, B) -> C``."""
        self.expect("(")
        operation.operands = self.values(")")
        self.expect("dim_numbers")
        self.expect("=")
        operation.attributes["dimension_numbers"] = self.convolution_dimensions()
        self.expect(",")
        self.expect("window")
        self.expect("=")
        self.expect("{")
        while not self.accept("}"):
            word = self.take_kind("word", "an attribute of the window")
            if word not in _WINDOW:
                self.fail(f"window: got {word!r}; expected one of: {', '.join(_WINDOW)}")
            self.expect("=")
            operation.attributes[_WINDOW[word]] = self._window(word)
            if not self.accept(",") and not self.at("}"):
                self.unexpected("',' or '}'")
        self.optional_attributes(operation)
        self.expect(":")
        self.set_types(operation, self.function_type())

    def _window(self, word: str) -> Any:
        if word != "pad":
            values = self.plain()
            return [bool(value) for value in values] if word == "reverse" and isinstance(values, list) else values
        self.expect("[")
        rows: list[list[int]] = []
        while not self.accept("]"):
            rows.append(self.integers())
            if len(rows[-1]) != 2 or not all(-(1 << 63) <= size < 1 << 63 for size in rows[-1]):
                self.fail("pad: expected two integers of 64 bits for each dimension")
            if not self.accept(",") and not self.at("]"):
                self.unexpected("',' or ']'")
        return np.array(rows, np.int64).reshape(len(rows), 2)

    def loop(self, operation: Operation) -> None:
        """``while(%i = %a, ...) : A, ... attributes {...} cond { ... } do { ... }``."""
        names: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            names.append(self.take_kind("value", "the name of a value of the loop")[1:])
            self.expect("=")
            operation.operands.append(self.value())
            if not self.accept(",") and not self.at(")"):
                self.unexpected("',' or ')'")
        types = self.types() if self.accept(":") else []
        self.check_operands(operation, types)
        self.optional_attributes(operation, "attributes")
        for keyword in ("cond", "do"):
            self.expect(keyword)
            operation.regions.append(self.region([Value(kind, name) for name, kind in zip(names, types)]))
        operation.results = [Value(kind) for kind in types]

    def reduction(self, operation: Operation) -> None:
        """``reduce(%a init: %b), ... applies op across dimensions = [...] : type``, or a region, ``reducer(...) { ... }``."""
        inputs: list[Value] = []
        inits: list[Value] = []
        while self.accept("("):
            inputs.append(self.value())
            self.expect("init")
            self.expect(":")
            inits.append(self.value())
            self.expect(")")
            self.accept(",")
        operation.operands = inputs + inits
        inner = self.take_kind("word", "an operation") if self.accept("applies") else ""
        self.expect("across")
        self.expect("dimensions")
        self.expect("=")
        operation.attributes["dimensions"] = self.integers()
        self.optional_attributes(operation)
        self.expect(":")
        self.set_types(operation, self.function_type())
        if self.at("loc"):
            self.locate(operation)
        operation.regions = [self._applied(operation, inner) if inner else self._reducer(len(inputs))]

    def _applied(self, operation: Operation, inner: str) -> Block:
        """The region that ``applies`` stands for."""
        first = operation.operands[0].type if operation.operands else None
        if not isinstance(first, TensorType):
            self.fail("reduce: got no tensor; expected (%value init: %value)")
        scalar = TensorType((), first.dtype, None, first.quantized)
        arguments = [Value(scalar), Value(scalar)]
        applied = Operation(spelling.operation_name(inner), list(arguments), [Value(scalar)])
        last = Operation("stablehlo.return", list(applied.results))
        if self.located and self.located[-1][0] is operation:
            self.located += [(item, self.located[-1][1]) for item in (applied, last)]
        return Block(arguments, [applied, last])

    def _reducer(self, count: int) -> Block:
        """``reducer(%a: A, %b: A) (...) { ... }``: the arguments in pairs, of which the second ones come after all first ones."""
        self.expect("reducer")
        pairs: list[tuple[Value, Value]] = []
        while self.accept("("):
            first = self.named_type()
            self.expect(",")
            pairs.append((first, self.named_type()))
            self.expect(")")
        if len(pairs) != count:
            self.fail(f"reducer: got {len(pairs)} pairs of arguments; expected {count}")
        return self.region([pair[0] for pair in pairs] + [pair[1] for pair in pairs])

    def scan(self, operation: Operation) -> None:
        """``scan(%a) inits(%b) dimension=0 attributes {...} { ... } : (A, B) -> (C, D)``."""
        self.expect("(")
        inputs = self.values(")")
        self.expect("inits")
        self.expect("(")
        inits = self.values(")")
        operation.operands = inputs + inits
        self.expect("dimension")
        self.expect("=")
        dimension = self.integer()
        self.optional_attributes(operation, "attributes")
        operation.regions = [self.region()]
        self.expect(":")
        self.set_types(operation, self.function_type())
        operation.attributes |= {
            "dimension": dimension, "operandSegmentSizes": [len(inputs), len(inits)],
            "resultSegmentSizes": [len(operation.results) - len(inits), len(inits)]}

    def mesh(self, operation: Operation) -> None:
        """``sdy.mesh @name = <...> {...}``."""
        operation.attributes["sym_name"] = self.symbol_name()
        self.expect("=")
        operation.attributes["mesh"] = Opaque(f"#sdy.mesh{self.balanced()}")
        self.optional_attributes(operation)

    def sharding_constraint(self, operation: Operation) -> None:
        """``sdy.sharding_constraint %a <...> : A``."""
        operation.operands = [self.value()]
        operation.attributes["sharding"] = Opaque(f"#sdy.sharding{self.balanced()}")
        self.optional_attributes(operation)
        self._types(operation, "", 1)


_GENERIC = re.compile(r"\s*+\)\s*+(?:<\{|\{|:\s*+\()")
"""What follows the parenthesis of an operation that is in its generic form, but for the quotes."""

_FORMS: dict[str, Callable[[PrettyReader, Operation], None]] = {
    "builtin.module": PrettyReader.module,
    "func.func": PrettyReader.function,
    "func.call": PrettyReader.call,
    "stablehlo.custom_call": PrettyReader.call,
    "stablehlo.composite": PrettyReader.composite,
    "stablehlo.constant": PrettyReader.constant,
    "chlo.constant": PrettyReader.constant,
    "stablehlo.convolution": PrettyReader.convolution,
    "stablehlo.while": PrettyReader.loop,
    "stablehlo.reduce": PrettyReader.reduction,
    "chlo.scan": PrettyReader.scan,
    "sdy.mesh": PrettyReader.mesh,
    "sdy.sharding_constraint": PrettyReader.sharding_constraint,
}
