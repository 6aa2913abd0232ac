"""Loop functions as readable text.

    func gemm(A: float32[*, readonly], C: float32[*, align 64]; n) {
      parallel for i in 0 .. n {
        C[ramp(i * 16, 1, 16)] = A[ramp(i * 16, 1, 16)] * 2.0
      }
    }
"""

from __future__ import annotations

from collections.abc import Iterator

from forge.tir import expr as tir
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr, Var

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "and": "&", "or": "|",
            "xor": "^", "shl": "<<", "shr": ">>"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def print_function(function: stmt.Function) -> str:
    """The text of a function; names that occur twice get a number."""
    return "\n".join(_Printer(function).lines()) + "\n"


def print_statement(s: stmt.Stmt) -> str:
    """The text of a statement by itself."""
    return "\n".join(_Printer(None).statement(s, 0)) + "\n"


def print_expression(x: Expr) -> str:
    """The text of an expression by itself."""
    return _Printer(None).expression(x)


class _Printer:
    def __init__(self, function: stmt.Function | None) -> None:
        self.function = function
        self._names: dict[Var | Buffer, str] = {}
        self._taken: set[str] = set()

    def name(self, thing: Var | Buffer) -> str:
        if thing not in self._names:
            name, number = thing.name, 1
            while name in self._taken:
                number += 1
                name = f"{thing.name}.{number}"
            self._taken.add(name)
            self._names[thing] = name
        return self._names[thing]

    def lines(self) -> Iterator[str]:
        function = self.function
        assert function is not None
        buffers = ", ".join(self._declaration(b) for b in function.buffers)
        scalars = "".join(f"{'; ' if i == 0 else ', '}{self.name(v)}" for i, v in enumerate(function.scalars))
        yield f"func {function.name}({buffers}{scalars}) {{"
        yield from self.statement(function.body, 1)
        yield "}"

    def _declaration(self, buffer: Buffer) -> str:
        lanes = f"x{buffer.lanes}" if buffer.lanes > 1 else ""
        details = [", ".join(self.expression(e) for e in buffer.shape) or "*"]
        if buffer.alignment:
            details.append(f"align {buffer.alignment}")
        if not buffer.writable:
            details.append("readonly")
        return f"{self.name(buffer)}: {buffer.dtype}{lanes}[{', '.join(details)}]"

    def statement(self, s: stmt.Stmt, depth: int) -> Iterator[str]:
        indent = "  " * depth
        match s:
            case stmt.Seq(body=body):
                for inner in body:
                    yield from self.statement(inner, depth)
            case stmt.For():
                yield f"{indent}{self._loop_header(s)} {{"
                yield from self.statement(s.body, depth + 1)
                yield f"{indent}}}"
            case stmt.If(condition=condition, then=then, otherwise=otherwise):
                yield f"{indent}if {self.expression(condition)} {{"
                yield from self.statement(then, depth + 1)
                if otherwise is not None:
                    yield f"{indent}}} else {{"
                    yield from self.statement(otherwise, depth + 1)
                yield f"{indent}}}"
            case _:
                yield indent + self._leaf(s)

    def _loop_header(self, s: stmt.For) -> str:
        kind = "" if s.kind == "serial" else f"{s.kind} "
        end = self.expression(tir.binary("add", s.begin, s.extent))
        grain = "" if s.grain is None else f" grain {self.expression(s.grain)}"
        return f"{kind}for {self.name(s.var)} in {self.expression(s.begin)} .. {end}{grain}"

    def _leaf(self, s: stmt.Stmt) -> str:
        match s:
            case stmt.Store(buffer=buffer, index=index, value=value, mask=mask):
                where = "" if mask is None else f" where {self.expression(mask)}"
                return f"{self.name(buffer)}[{self.expression(index)}] = {self.expression(value)}{where}"
            case stmt.Let(var=var, value=value):
                return f"let {self.name(var)} = {self.expression(value)}"
            case stmt.Allocate(buffer=buffer):
                return f"local {self._declaration(buffer)}"
            case stmt.Evaluate(value=value):
                return self.expression(value)
            case stmt.Prefetch(buffer=buffer, index=index):
                return f"prefetch {self.name(buffer)}[{self.expression(index)}]"
            case stmt.Tiles(operation=operation, numbers=numbers, values=values, buffer=buffer):
                memory = [] if buffer is None else [self.name(buffer)]
                return f"tiles {operation}({', '.join([*map(str, numbers), *memory, *map(self.expression, values)])})"
            case stmt.Fail(status=status, message=message):
                return f"fail {status} {message!r}"
            case stmt.CallExtern(name=name, arguments=arguments):
                return f"extern {name}({', '.join(map(self._argument, arguments))})"
            case stmt.CallRoutine(name=name, buffers=buffers, scalars=scalars):
                return f"routine {name}({', '.join([*map(self.name, buffers), *map(self.expression, scalars)])})"
            case _:
                return self._entry_leaf(s)

    def _argument(self, a: stmt.ExternArgument) -> str:
        if isinstance(a, stmt.ExternTensor):
            return f"{self.name(a.buffer)}[{', '.join(map(self.expression, a.shape))}]"
        return repr(a) if isinstance(a, str) else self.expression(a)

    def _entry_leaf(self, s: stmt.Stmt) -> str:
        match s:
            case stmt.CallKernel(name=name, buffers=buffers, scalars=scalars):
                pointers = [self._address(a) for a in buffers]
                return f"call {name}({', '.join([*pointers, *map(self.expression, scalars)])})"
            case stmt.LoadSymbol(var=var, address=address):
                return f"let {self.name(var)} = load {self._address(address)}"
            case stmt.Timestamp(address=address):
                return f"{self._address(address)} = cycles"
            case stmt.AllocateMemory(number=number, size=size):
                return f"dynamic{number} = allocate {self.expression(size.bytes)}"
            case stmt.FreeMemory(number=number):
                return f"free dynamic{number}"
            case stmt.AllocateOutput(number=number, shape=shape, size=size):
                return f"output{number} = allocate {self.expression(size.bytes)} as ({', '.join(map(self.expression, shape))})"
            case stmt.RunControl(control=control, operands=operands, results=results):
                given = ", ".join(map(self._control_operand, operands))
                made = ", ".join(f"dynamic{r.number}" if r.address is None else self._address(r.address) for r in results)
                return f"{made} = control{control}({given})"
            case stmt.MoveOutput(result=result, number=number):
                return f"output{number} = dynamic{result}"
        raise TypeError(f"{type(s).__name__} has no text")

    def _control_operand(self, operand: stmt.ControlOperand) -> str:
        if operand.address is not None:
            return self._address(operand.address)
        return "sizes" if operand.result is None else f"dynamic{operand.result}"

    def _address(self, address: stmt.Address) -> str:
        kind, number = address.base
        base = f"{kind}{number}" if kind in ("input", "output", "dynamic", "shape") else kind
        offset = self.expression(address.offset)
        return base if offset == "0" else f"{base}+{offset}"

    def expression(self, x: Expr) -> str:
        match x:
            case tir.Const(value=value):
                text = str(value).lower() if isinstance(value, bool) else repr(value)
                return text if x.dtype in (tir.INDEX, "bool", "float32") else f"{x.dtype}({text})"
            case tir.Var():
                return self.name(x)
            case tir.Binary(op=op, a=a, b=b):
                return self._infix(op, _SYMBOLS.get(op), a, b)
            case tir.Compare(op=op, a=a, b=b):
                return self._infix(op, _COMPARISONS[op], a, b)
            case tir.Load(buffer=buffer, index=index, mask=mask):
                where = "" if mask is None else f" where {self.expression(mask)}"
                return f"{self.name(buffer)}[{self.expression(index)}{where}]"
            case tir.Reduce(kind=kind, axes=axes):
                ranges = ", ".join(f"{self.name(a.var)} < {self.expression(a.extent)}" for a in axes)
                return f"{kind}({self.expression(x.x)} over {ranges})"
            case tir.Read(tensor=tensor, indices=indices):
                return f"{tensor.name}[{', '.join(map(self.expression, indices))}]"
        return self._call(x)

    def _call(self, x: Expr) -> str:
        names = {tir.Select: "select", tir.Cast: x.dtype, tir.Ramp: "ramp", tir.Broadcast: "broadcast"}
        name = x.name if isinstance(x, tir.Call) else names[type(x)]
        parts = [self.expression(c) for c in tir.children(x)]
        if isinstance(x, (tir.Ramp, tir.Broadcast)):
            parts.append(str(x.lanes))
        return f"{name}({', '.join(parts)})"

    def _infix(self, name: str, symbol: str | None, a: Expr, b: Expr) -> str:
        if symbol is None:
            return f"{name}({self.expression(a)}, {self.expression(b)})"
        return f"{self._operand(a)} {symbol} {self._operand(b)}"

    def _operand(self, x: Expr) -> str:
        text = self.expression(x)
        nested = isinstance(x, tir.Compare) or isinstance(x, tir.Binary) and x.op in _SYMBOLS
        return f"({text})" if nested else text
