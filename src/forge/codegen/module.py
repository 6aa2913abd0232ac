"""Modules: several kernels and the helper functions they share, as one LLVM IR text."""

from __future__ import annotations

from collections.abc import Sequence

from forge.codegen import narrow, transcendental
from forge.codegen.arithmetic import Typed
from forge.codegen.expressions import ExpressionEmitter
from forge.codegen.functions import FunctionEmitter, emit_kernel
from forge.codegen.isa import instructions
from forge.codegen.llvm import c_string, memory_type, register_type, scalar_type, suffix
from forge.codegen.transcendental import AnyHelper, ByFormat, Guarded, Looped
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import stmt

HELPERS: dict[str, AnyHelper] = {**narrow.HELPERS, **transcendental.HELPERS}
"""Functions written in loop IR."""


class ModuleEmitter:
    """Collects the functions of one LLVM module."""

    def __init__(self, target: Target) -> None:
        target.require_codegen()
        self.target = target
        self.instructions = instructions(target)
        self._functions: list[str] = []
        self._helpers: set[str] = set()
        self._loops = 0

    def symbol(self, name: str) -> str:
        """The LLVM name of kernel ``name``; the prefix keeps it clear of the C library's."""
        if '"' in name or "\\" in name:
            raise CompileError(f"codegen: function name {name!r}; expected no quotes or backslashes")
        return f'@"{kernel_symbol(name)}"'

    def add(self, function: str) -> None:
        self._functions.append(function)

    def add_once(self, symbol: str, definition: str) -> None:
        """Adds the definition of ``symbol`` unless the module has it."""
        if symbol not in self._helpers:
            self._helpers.add(symbol)
            self.add(definition)

    def message(self, text: str) -> str:
        """The symbol of a constant with ``text`` and a terminating zero."""
        symbol = f"@forge.message{len(self._functions)}"
        self.add(c_string(symbol, text))
        return symbol

    def no_unrolling(self) -> str:
        """Metadata for one loop that LLVM is to leave as it is."""
        self._loops += 1
        return f"!{self._loops}"

    def helper(self, name: str, count: int, dtype: str, result: str, lanes: int) -> str:
        """The symbol of a helper on ``count`` arguments of a type, written into the module at its first use."""
        symbol = f'@"forge.{name}.{suffix(scalar_type(dtype), lanes)}"'
        if symbol not in self._helpers:
            if name not in HELPERS:
                raise CompileError(f"codegen: no lowering of {name} for {dtype}")
            self._helpers.add(symbol)
            self._write_helper(symbol, name, tuple(tir.Var(dtype, lanes, f"x{i}") for i in range(count)), result)
        return symbol

    def _write_helper(self, symbol: str, name: str, args: tuple[tir.Var, ...], result: str) -> None:
        helper, lanes = HELPERS[name], args[0].lanes
        if isinstance(helper, ByFormat):
            helper = helper.single if args[0].dtype == "float32" else helper.double
        f = FunctionEmitter(self, symbol)
        f.e.env = {var: f"%{var.name}" for var in args}
        if isinstance(helper, Guarded):
            _emit_guarded(f.e, helper, args)
        elif isinstance(helper, Looped):
            _emit_looped(f, helper, name, args, result)
        else:
            f.builder.effect(f"ret {f.e.text(helper(*args))}")
        parameters = ", ".join(map(f.e.text, args))
        attributes = "#2" if isinstance(helper, (Guarded, Looped)) else "#1"
        self.add(f.builder.function(f"internal {register_type(result, lanes)} {symbol}({parameters}) {attributes}"))

    def table(self, buffer: tir.Buffer) -> str:
        """The symbol of a constant table, written into the module at its first use."""
        symbol = f"@forge.table.{buffer.name}"
        element, values = memory_type(buffer.dtype), transcendental.TABLES[buffer]
        items = ", ".join(f"{element} {value}" for value in values)
        self.add_once(symbol, f"{symbol} = internal unnamed_addr constant [{len(values)} x {element}] [{items}], align 64")
        return symbol

    def text(self) -> str:
        """The module as LLVM IR."""
        attributes = _attributes(self.target)
        loops = [f"!{k} = distinct !{{!{k}, !0}}" for k in range(1, self._loops + 1)]
        metadata = "\n".join(['!0 = !{!"llvm.loop.unroll.disable"}', *loops])
        layout = f'target datalayout = "{self.target.architecture.data_layout}"\n' if self.instructions.table.has_layout else ""
        return "\n\n".join([f'{layout}target triple = "{self.target.triple}"', *self._functions,
                            f"attributes #0 = {{ nounwind {attributes} }}",
                            f"attributes #1 = {{ alwaysinline nounwind memory(none) {attributes} }}",
                            f"attributes #2 = {{ nounwind memory(none) {attributes} }}", metadata]) + "\n"


def _emit_guarded(e: ExpressionEmitter, helper: Guarded, args: tuple[tir.Expr, ...]) -> None:
    """One branch: the rare form for the whole vector where any lane needs it."""
    condition = helper.rare(*args)
    rare = e.value(condition if condition.lanes == 1 else tir.call("reduce_or", condition))
    e.builder.effect(f"br i1 {rare}, label %far, label %near")
    for label, form in (("near", helper.usual), ("far", helper.always)):
        e.builder.enter()
        e.builder.label(label)
        e.forget()
        e.builder.effect(f"ret {e.text(form(*args))}")
        e.builder.leave()


def _emit_looped(f: FunctionEmitter, helper: Looped, name: str, args: tuple[tir.Var, ...], result: str) -> None:
    """The loop itself for scalars; for vectors a call for each lane."""
    lanes = args[0].lanes
    if lanes == 1:
        body, returned = helper.build(*args)
        f.emit(body)
        f.e.forget()
        f.builder.effect(f"ret {f.e.text(returned)}")
        return
    t, whole = Typed(f.builder, result, lanes), "poison"
    for lane in range(lanes):
        parts = (f.e.value(tir.call("lane", arg, tir.const(lane))) for arg in args)
        whole = t.insert(whole, f.e.helper(name, f.e.typed(args[0]).of(1), *parts, result=result), lane)
    f.builder.effect(f"ret {t.type} {whole}")


def kernel_symbol(name: str) -> str:
    """The linker's name of kernel ``name``."""
    return f"forge_kernel_{name}"


def emit_module(functions: Sequence[stmt.Function], target: Target) -> str:
    """LLVM IR text that defines a native function for each of ``functions``.

    Raises:
        CompileError: a function uses what has no machine code.
        TargetError: there is no linker for the target's system.
    """
    module = ModuleEmitter(target)
    for function in functions:
        emit_kernel(module, function)
    return module.text()


def llvm_features(target: Target) -> str:
    """The features in LLVM's notation."""
    return ",".join(f"+{feature}" for feature in target.machine_features)


def _attributes(target: Target) -> str:
    own = instructions(target).table.attributes(target.vector_bits)
    return f'"target-cpu"="{target.cpu}" "target-features"="{llvm_features(target)}" {own}'.rstrip()
