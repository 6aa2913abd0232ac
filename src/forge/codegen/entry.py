"""The program level: the entry that calls kernels in order, and the tables of ``forge_model``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from forge.codegen import abi, control, conversions, dynamic
from forge.codegen.functions import FunctionEmitter, Parameter
from forge.codegen.llvm import text
from forge.codegen.module import ModuleEmitter, kernel_symbol
from forge.codegen.tables import MODEL_SYMBOL, REGION_FIELDS, LibraryTables, ProgramTables, Strings
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import stmt, visit
from forge.tir.library import Library, Program
from forge.tir.steps import steps

WEIGHTS_SYMBOL = "forge_weights"

UNCHECKED_STEPS = 1 << 14
"""Steps of kernels between two calls of ``proceed``: about 10 us, where the call takes a few ns."""


class EntryEmitter(FunctionEmitter):
    """The function ``i32 forge_entry(const forge_call *)``.

    ``work`` has the number of steps of each kernel. A region also calls ``proceed`` after its last kernel, because it may be the
    body of a loop; a function of the library has nothing left to interrupt then.
    """

    def __init__(self, module: ModuleEmitter, program: Program, work: Mapping[str, float], suffix: str = "",
                 is_region: bool = False) -> None:
        super().__init__(module, f"@forge_entry{suffix}")
        self._suffix = suffix
        self._work = work
        self._unchecked = 0.0
        self._status = ""
        self._last = None if is_region else _last_step(program.entry)
        self._bases: dict[tuple[str, int], str] = {}
        self._fields = {name: abi.field(self.builder, "%call", offset) for name, offset in abi.CALL_OFFSETS.items()}
        self._dynamic = dynamic.DynamicMemory(self, self._fields["host"], self._fields["out"], program.entry)
        bind_symbols(self, program.symbols, self._fields["symbols"])
        self._load_bases(program.entry)
        self._proceed = abi.host_function(self.builder, self._fields["host"], "proceed")

    def _load_bases(self, entry: stmt.Stmt) -> None:
        late = {s.number for s in visit.statements(entry) if isinstance(s, stmt.AllocateOutput)}
        for address in (a for s in visit.statements(entry) for a in _addresses(s)):
            kind, number = address.base
            if kind not in ("dynamic", "shape") and not (kind == "output" and number in late):
                self._bases.setdefault(address.base, self._base(kind, number))

    def _base(self, kind: str, number: int) -> str:
        if kind in ("weights", "arena"):
            return self._fields[kind]
        if kind in ("input", "output"):
            return abi.field(self.builder, self._fields[f"{kind}s"], 8 * number)
        raise CompileError(f"codegen: address base {kind!r}; expected input, output, weights or arena")

    def emit(self, s: stmt.Stmt) -> None:
        self.e.forget()
        match s:
            case stmt.CallKernel():
                self._call_kernel(s)
            case stmt.LoadSymbol(var=var, address=address):
                self.e.env[var] = self.builder.value(f"load i64, ptr {self._pointer(address)}, align 8")
                self.e.nonnegative_vars.add(var)
            case stmt.Timestamp(address=address):
                now = self.builder.value(f"call i64 @llvm.{self.module.instructions.table.clock}")
                self.builder.effect(f"store i64 {now}, ptr {self._pointer(address)}, align 8")
            case stmt.AllocateMemory(number=number, size=size):
                wanted, estimate = self.e.text(size.bytes), self.e.text(size.estimate)
                self._bases["dynamic", number] = self._dynamic.allocate(number, wanted, estimate)
            case stmt.FreeMemory(number=number):
                self._dynamic.free(number)
            case stmt.RunControl():
                self._run_control(s)
            case stmt.MoveOutput(result=result, number=number):
                self._dynamic.controls.move(result, abi.tensor(self.builder, self._fields["out"], number))
            case stmt.AllocateOutput(number=number, shape=shape, size=size):
                sizes = [self._scalar(d) for d in shape]
                self._bases["output", number] = self._dynamic.allocate_output(
                    number, sizes, self.e.text(size.bytes), self.e.text(size.estimate))
            case _:
                super().emit(s)

    def check_status(self, status: str) -> None:
        """Ends the function where ``status`` is not 0. Memory is freed in one place, for all calls that may fail."""
        if not self._dynamic.slots:
            super().check_status(status)
            return
        b = self.builder
        self._status = self._status or b.alloca("i32", 4)
        passed = b.fresh("passed")
        b.effect(f"store i32 {status}, ptr {self._status}, align 4")
        bad = b.value(f"icmp ne i32 {status}, 0")
        b.effect(f"br i1 {bad}, label %leave, label %{passed}")
        b.label(passed)

    def leave(self) -> None:
        if self._status:
            self.builder.label("leave")
            self._dynamic.free_all()
            self.builder.effect(f"ret i32 {self.builder.value(f'load i32, ptr {self._status}, align 4')}")

    def _call_kernel(self, call: stmt.CallKernel) -> None:
        args = [f"ptr {self._pointer(address)}" for address in call.buffers]
        args += [f"i64 {self._scalar(x)}" for x in call.scalars]
        symbol = self.module.symbol(call.name)
        status = self.builder.value(f"call i32 {symbol}({', '.join([*args, 'ptr ' + self._fields['host']])})")
        self._unchecked += self._work.get(call.name, math.inf)
        self.check_status(self._may_proceed(call, status))

    def _may_proceed(self, step: stmt.Stmt, status: str) -> str:
        """``status`` of a finished step or, if that is FORGE_OK, the result of ``proceed``."""
        if self._unchecked < UNCHECKED_STEPS or step is self._last:
            return status
        self._unchecked = 0
        return self.builder.value(f"call i32 {self._proceed}(ptr {self._fields['host']}, i32 {status})")

    def _run_control(self, node: stmt.RunControl) -> None:
        controls = self._dynamic.controls
        controls.run(node, control_symbol(self._suffix, node.control), self._fields["weights"], self._pointer, self._scalar)
        for result in (r for r in node.results if r.address is None):
            data = self.builder.value(f"load ptr, ptr {controls.descriptors[result.number]}, align 8")
            self._bases["dynamic", result.number] = data
            self._bases["shape", result.number] = controls.shape(result.number)

    def _pointer(self, address: stmt.Address) -> str:
        base, offset = self._bases[address.base], self.e.value(address.offset)
        return base if offset == 0 else self.builder.pure(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _scalar(self, x: tir.Expr) -> str:
        return text(conversions.convert(self.e, self.e.value(x), x.dtype, tir.INDEX, 1), "i64")


def _last_step(entry: stmt.Stmt) -> stmt.Stmt | None:
    found = [s for s in visit.statements(entry) if isinstance(s, stmt.CallKernel | stmt.RunControl)]
    return found[-1] if found else None


def control_symbol(suffix: str, number: int) -> str:
    return f"@forge_control{suffix}_{number}"


def _addresses(s: stmt.Stmt) -> Sequence[stmt.Address]:
    match s:
        case stmt.CallKernel(buffers=buffers):
            return buffers
        case stmt.LoadSymbol(address=address) | stmt.Timestamp(address=address):
            return (address,)
        case stmt.RunControl(operands=operands, results=results):
            given = [o.address for o in operands], [r.address for r in results]
            return [address for addresses in given for address in addresses if address is not None]
    return ()


def bind_symbols(f: FunctionEmitter, symbols: Sequence[tir.Var], values: str) -> None:
    """Loads the values of ``symbols`` from the array that ``values`` points to. Sizes are never negative."""
    for position, var in enumerate(symbols):
        slot = f.builder.pure(f"getelementptr i64, ptr {values}, i64 {position}")
        f.e.env[var] = f.builder.value(f"load i64, ptr {slot}, align 8")
        f.e.nonnegative_vars.add(var)


def emit_library_entry(library: Library, target: Target) -> str:
    """LLVM IR of the module that defines ``forge_model_get`` and what it returns; kernels are declared.

    The tables point to symbol ``forge_weights`` where another object defines it, else to NULL: the symbol is weak.
    """
    module = ModuleEmitter(target)
    emitter = _LibraryEmitter(module, library)
    weights = "ptr null"
    if library.weights_size:
        module.add(f"@{WEIGHTS_SYMBOL} = extern_weak hidden constant [{library.weights_size} x i8], align 64")
        weights = f"ptr @{WEIGHTS_SYMBOL}"
    emitter.emit(weights)
    return module.text()


class _LibraryEmitter:
    """Functions and tables of programs and their regions. The symbols of each end in a suffix, which the first has not."""

    def __init__(self, module: ModuleEmitter, library: Library) -> None:
        self.module = module
        self.library = library
        self.strings = Strings()
        self.tables = LibraryTables(library, self.strings)
        self.work = {function.name: steps(function.body) for function in library.functions}

    def emit(self, weights: str) -> None:
        suffixes = [f"_f{number}" if number else "" for number in range(len(self.library.programs))]
        models = [self._program(program, suffix, weights) for program, suffix in zip(self.library.programs, suffixes)]
        self.module.add(self.tables.definitions(models))
        for definition in self.strings.definitions:
            self.module.add(definition)
        self.module.add(f"define ptr @forge_model_get() #0 {{\n  ret ptr {models[0]}\n}}")

    def _program(self, program: Program, suffix: str, weights: str, is_region: bool = False) -> str:
        """Returns the symbol of the descriptor."""
        module = self.module
        for number, node in enumerate(program.controls):
            models = [self._program(region, f"{suffix}_{number}_{k}", "ptr null", True) for k, region in enumerate(node.regions)]
            for line in control.constants(node, control_symbol(suffix, number), models, self.strings.pointer):
                module.add(line)
        entry = EntryEmitter(module, program, self.work, suffix, is_region)
        entry.emit(program.entry)
        entry.finish([Parameter("ptr", "%call", "noundef readonly")], "hidden ")
        tables = ProgramTables(program, suffix, self.strings)
        for function in _functions(module, program, tables.expressions, suffix):
            module.add(function)
        for name, line in _declarations(program).items():
            module.add_once(name, line)
        size = 0 if is_region else self.library.weights_size
        module.add(tables.definition(weights, size, REGION_FIELDS if is_region else self.tables.fields(program, suffix)))
        return f"@{MODEL_SYMBOL}{suffix}"


def _functions(module: ModuleEmitter, program: Program, expressions: Sequence[tir.Expr], suffix: str) -> Iterator[str]:
    """Those that compute the size of the arena and the dimensions that are expressions."""
    f = FunctionEmitter(module, f"@forge_arena_size{suffix}")
    bind_symbols(f, program.symbols, "%symbols")
    for binding in program.arena_bindings:
        f.emit(binding)
    f.builder.effect(f"ret {f.e.text(program.arena_size)}")
    yield f.builder.function(f"hidden i64 {f.symbol}(ptr noundef readonly %symbols) #0")
    if expressions:
        f = FunctionEmitter(module, f"@forge_dims{suffix}")
        bind_symbols(f, program.symbols, "%symbols")
        for position, x in enumerate(expressions):
            value = f.e.text(x)
            slot = f.builder.value(f"getelementptr i64, ptr %values, i64 {position}")
            f.builder.effect(f"store {value}, ptr {slot}, align 8")
        f.builder.effect("ret void")
        yield f.builder.function(f"hidden void {f.symbol}(ptr noalias noundef readonly %symbols, ptr noalias noundef %values) #0")


def _declarations(program: Program) -> dict[str, str]:
    """Of the kernels that the entry calls, by name."""
    called = {s.name: s for s in visit.statements(program.entry) if isinstance(s, stmt.CallKernel)}
    lines = {}
    for name, call in called.items():
        types = ["ptr"] * len(call.buffers) + ["i64"] * len(call.scalars) + ["ptr"]
        lines[name] = f'declare hidden i32 @"{kernel_symbol(name)}"({", ".join(types)})'
    return lines
