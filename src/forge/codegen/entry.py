"""The program level: the entry that calls kernels in order, and the tables of ``forge_model``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from forge.codegen import abi, control, conversions, dynamic
from forge.codegen.functions import FunctionEmitter, Parameter
from forge.codegen.llvm import c_string, text
from forge.codegen.module import ModuleEmitter, kernel_symbol
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import stmt, visit
from forge.tir.program import Program, TensorSpec
from forge.tir.steps import steps

MODEL_SYMBOL = "forge_model_data"
WEIGHTS_SYMBOL = "forge_weights"

UNCHECKED_STEPS = 1 << 14
"""Steps of kernels between two calls of ``proceed``: about 10 us, where the call takes a few ns."""

_SPEC_TYPE = f"{{ ptr, i32, i32, [{abi.MAX_RANK} x {{ i64, i64 }}], ptr }}"


class EntryEmitter(FunctionEmitter):
    """The function ``i32 forge_entry(const forge_call *)``.

    ``work`` has the number of steps of each kernel. A region also calls ``proceed`` after its last kernel, because it may be the
    body of a loop; the main program has nothing left to interrupt then.
    """

    def __init__(self, module: ModuleEmitter, program: Program, work: Mapping[str, float], suffix: str = "") -> None:
        super().__init__(module, f"@forge_entry{suffix}")
        self._suffix = suffix
        self._work = work
        self._unchecked = 0.0
        self._last = None if suffix else _last_step(program.entry)
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
                now = self.builder.value("call i64 @llvm.readcyclecounter()")
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

    def clean_up(self) -> None:
        self._dynamic.free_all()

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
        for result in node.results:
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
        case stmt.RunControl(operands=operands):
            return [o.address for o in operands if o.address is not None]
    return ()


def bind_symbols(f: FunctionEmitter, symbols: Sequence[tir.Var], values: str) -> None:
    """Loads the values of ``symbols`` from the array that ``values`` points to. Sizes are never negative."""
    for position, var in enumerate(symbols):
        slot = f.builder.pure(f"getelementptr i64, ptr {values}, i64 {position}")
        f.e.env[var] = f.builder.value(f"load i64, ptr {slot}, align 8")
        f.e.nonnegative_vars.add(var)


def emit_program_entry(program: Program, target: Target, embedded_weights: bool) -> str:
    """LLVM IR of the module that defines ``forge_model_get`` and what it returns; kernels are declared.

    With ``embedded_weights`` the tables point to symbol ``forge_weights``, which another object defines; without, to NULL.
    """
    module = ModuleEmitter(target)
    strings = _Strings()
    weights = "ptr null"
    if embedded_weights and program.weights_size:
        module.add(f"@{WEIGHTS_SYMBOL} = external hidden constant [{program.weights_size} x i8], align 64")
        weights = f"ptr @{WEIGHTS_SYMBOL}"
    work = {function.name: steps(function.body) for function in program.functions}
    _emit_program(module, program, "", strings, weights, work)
    for line in [*strings.definitions, f"define ptr @forge_model_get() #0 {{\n  ret ptr @{MODEL_SYMBOL}\n}}"]:
        module.add(line)
    return module.text()


def _emit_program(module: ModuleEmitter, program: Program, suffix: str, strings: _Strings, weights: str,
                  work: Mapping[str, float]) -> str:
    """Functions and tables of one program and its regions, all their symbols with ``suffix``; returns its descriptor's symbol."""
    for number, node in enumerate(program.controls):
        models = [_emit_program(module, region, f"{suffix}_{number}_{k}", strings, "ptr null", work)
                  for k, region in enumerate(node.regions)]
        for line in control.constants(node, control_symbol(suffix, number), models, strings.pointer(node.name)):
            module.add(line)
    entry = EntryEmitter(module, program, work, suffix)
    entry.emit(program.entry)
    entry.finish([Parameter("ptr", "%call", "noundef readonly")], "hidden ")
    tables = _Tables(program, suffix, strings)
    for function in _functions(module, program, tables.expressions, suffix):
        module.add(function)
    for name, line in _declarations(program).items():
        module.add_once(name, line)
    module.add(tables.definition(weights))
    return f"@{MODEL_SYMBOL}{suffix}"


def _functions(module: ModuleEmitter, program: Program, expressions: Sequence[tir.Expr], suffix: str) -> Iterator[str]:
    """Those that compute the size of the arena and the dimensions that are expressions."""
    f = FunctionEmitter(module, f"@forge_arena_size{suffix}")
    bind_symbols(f, program.symbols, "%symbols")
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


class _Strings:
    def __init__(self) -> None:
        self.definitions: list[str] = []

    def pointer(self, value: str) -> str:
        """A pointer to ``value`` as a C string."""
        symbol = f"@forge_string{len(self.definitions)}"
        self.definitions.append(c_string(symbol, value, "private unnamed_addr constant"))
        return f"ptr {symbol}"


class _Tables:
    """The constants that describe a program; their symbols end in ``suffix``.

    ``expressions`` are the dimensions that are neither constants nor symbols; equal objects once.
    """

    def __init__(self, program: Program, suffix: str, strings: _Strings) -> None:
        self.program = program
        self.suffix = suffix
        self.strings = strings
        dims = (dim for spec in (*program.inputs, *program.outputs) for dim in spec.dims)
        self.expressions = list(dict.fromkeys(d for d in dims if not isinstance(d, tir.Const) and d not in program.symbols))

    def definition(self, weights: str) -> str:
        """The ``forge_model``, after what it points to."""
        program, suffix, pointer = self.program, self.suffix, self.strings.pointer
        names = [pointer(v.name) for v in program.symbols]
        lines = [f"@forge_symbol_names{suffix} = internal constant [{len(names)} x ptr] [{', '.join(names)}]"]
        lines += [self._spec_table(f"@forge_{kind}_specs{suffix}", specs)
                  for kind, specs in (("input", program.inputs), ("output", program.outputs))]
        counts = (abi.ABI_VERSION, len(program.inputs), len(program.outputs), len(program.symbols), len(self.expressions), 0)
        fields = [*(f"i32 {count}" for count in counts), pointer(program.name), pointer(",".join(program.cpu_features)),
                  f"ptr @forge_symbol_names{suffix}", f"ptr @forge_input_specs{suffix}", f"ptr @forge_output_specs{suffix}",
                  weights, f"i64 {program.weights_size}", f"ptr @forge_arena_size{suffix}",
                  f"ptr @forge_dims{suffix}" if self.expressions else "ptr null", f"ptr @forge_entry{suffix}"]
        types = ", ".join(field.split(" ", 1)[0] for field in fields)
        lines.append(f"@{MODEL_SYMBOL}{suffix} = hidden constant {{ {types} }} {{ {', '.join(fields)} }}, align 8")
        return "\n\n".join(lines)

    def _spec_table(self, symbol: str, specs: Sequence[TensorSpec]) -> str:
        lines: list[str] = []
        rows = [f"{_SPEC_TYPE} {self._spec(spec, f'{symbol}.{k}', lines)}" for k, spec in enumerate(specs)]
        return "\n".join([*lines, f"{symbol} = internal constant [{len(rows)} x {_SPEC_TYPE}] [{', '.join(rows)}]"])

    def _spec(self, spec: TensorSpec, symbol: str, lines: list[str]) -> str:
        """The initializer of a spec; ``lines`` gets the definition of what its elements are, called after ``symbol``."""
        where = f"codegen: {self.program.name}: tensor {spec.name!r}"
        if spec.dtype not in abi.DTYPE_CODES:
            raise CompileError(f"{where} of {spec.dtype}; expected one of {', '.join(abi.DTYPE_CODES)}")
        if len(spec.dims) > abi.MAX_RANK:
            raise CompileError(f"{where} has rank {len(spec.dims)}; expected at most {abi.MAX_RANK}")
        dims = [*map(self._dim, spec.dims), *[(0, 0)] * (abi.MAX_RANK - len(spec.dims))]
        pairs = ", ".join(f"{{ i64, i64 }} {{ i64 {size}, i64 {number} }}" for size, number in dims)
        rank = len(spec.dims) if spec.has_rank else -1
        element = "null"
        if spec.element is not None:
            element = f"{symbol}.element"
            lines.append(f"{element} = internal constant {_SPEC_TYPE} {self._spec(spec.element, element, lines)}")
        name, code = self.strings.pointer(spec.name), abi.DTYPE_CODES[spec.dtype]
        return f"{{ {name}, i32 {code}, i32 {rank}, [{abi.MAX_RANK} x {{ i64, i64 }}] [{pairs}], ptr {element} }}"

    def _dim(self, dim: tir.Expr) -> tuple[int, int]:
        """``forge_dim``: the size; -1 and a symbol's number; or -2 and an expression's number."""
        if isinstance(dim, tir.Const) and isinstance(dim.value, int):
            return dim.value, 0
        if isinstance(dim, tir.Var) and dim in self.program.symbols:
            return -1, self.program.symbols.index(dim)
        return -2, self.expressions.index(dim)
