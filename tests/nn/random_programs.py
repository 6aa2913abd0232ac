"""Random loop programs and tensor expressions as text, for tests that read, write, run and compile them."""

from __future__ import annotations

import random
from collections.abc import Sequence

FLOATS = ("exp(-abs({}))", "sigmoid({})", "tanh({})", "sqrt(abs({}))", "-({})", "floor({})")
BINARY = ("({} + {})", "({} - {})", "({} * {})", "max({}, {})", "min({}, {})")


class Values:
    """Values of float32 over elements at indices."""

    def __init__(self, rng: random.Random, reads: Sequence[str], indices: Sequence[str]) -> None:
        self.rng, self.reads, self.indices = rng, list(reads), list(indices)

    def float32(self, depth: int = 3) -> str:
        rng = self.rng
        match rng.randrange(9 if depth else 2):
            case 0:
                return rng.choice(("0.5", "-2.0", "1.25", "3", "0.1", "1e-3"))
            case 1 | 2 | 3:
                return rng.choice(self.reads)
            case 4:
                return rng.choice(FLOATS).format(self._typed(depth - 1))
            case 5:
                return f"({self.float32(depth - 1)} if {self.condition(depth - 1)} else {self._typed(depth - 1)})"
            case 6:
                return f"float32({self.integer(depth - 1)})"
            case 7:
                return f"select({self.condition(depth - 1)}, {self._typed(depth - 1)}, {self.float32(depth - 1)})"
        return rng.choice(BINARY).format(self.float32(depth - 1), self._typed(depth - 1))

    def _typed(self, depth: int) -> str:
        """One that is not a plain number."""
        if self.rng.random() < 0.2:
            return f"float32({self.integer(0)})"
        return f"({self.rng.choice(self.reads)} + {self.float32(depth)})"

    def integer(self, depth: int = 2) -> str:
        rng = self.rng
        index = rng.choice(self.indices)
        if not depth or rng.random() < 0.4:
            return f"({index} + {rng.randrange(-3, 4)})"
        form = rng.choice(("({} * {})", "({} - {})", "({} // {})", "({} % {})", "max({}, {})", "min({}, {})", "truncdiv({}, {})"))
        return form.format(self.integer(depth - 1), rng.choice((index, "2", "3", self.integer(0))))

    def condition(self, depth: int = 1) -> str:
        rng = self.rng
        if depth and rng.random() < 0.4:
            return f"({self.condition(0)} {rng.choice(('and', 'or'))} not {self.condition(0)})"
        if rng.random() < 0.3:
            return f"0 <= {self.integer(0)} < {rng.randrange(1, 9)}"
        return f"({self.integer(0)} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {self.integer(0)})"


def random_program(seed: int) -> str:
    """Buffers A, T (n, m) and B (m,) of float32, K (n,) of int32, a number k; writes R (n, m) and S (n,)."""
    rng = random.Random(seed)
    lines = [f'def kernel_{seed}(A: Buffer[(n, m), "float32"], B: Buffer[(m,), "float32"], K: Buffer[(n,), "int32"], '
             'R: Buffer[(n, m), "float32"], S: Buffer[(n,), "float32"], k: int64):']
    for _ in range(rng.randrange(1, 4)):
        lines += _nest(rng)
    return "\n".join(lines) + "\n"


def _nest(rng: random.Random) -> list[str]:
    reads = ["A[i, j]", "B[j]", f"A[i, j + {rng.randrange(-2, 3)}]", "B[K[i]]", f"B[j - i + {rng.randrange(3)}]",
             "A[int64(K[i]) % n, j]", "R[i, j]"]
    values = Values(rng, reads, ("i", "j", "k", "n", "m"))
    outer = Values(rng, ["B[i]", "S[i]", "A[i, 0]", "A[i, K[i]]"], ("i", "k", "n"))
    match rng.randrange(6):
        case 0:
            return [f"    for i in {rng.choice(('range', 'parallel'))}(n):", "        for j in range(m):",
                    f"            R[i, j] = {values.float32()}"]
        case 1:
            return ["    for i, j in grid(n, m):", f"        x = {values.float32()} + A[i, j]",
                    f"        if {values.condition()}:",
                    f"            R[i, j + {rng.randrange(-1, 2)}] = x * 0.5", "        else:",
                    f"            R[i, j] += {values.float32(1)}"]
        case 2:
            return ["    for i in range(n):", f"        total = {outer.float32(1)} * float32(1)", "        for j in range(m):",
                    f"            total += {values.float32(2)}", "        S[i] = total"]
        case 3:
            return ["    for i in range(n):", '        t = local((4,), "float32")',
                    "        for u in unrolled(4):", f"            t[u] = {outer.float32(2)}",
                    f"        for j in range({rng.randrange(3)}, m):", "            t[j % 4] += A[i, j]",
                    "        for u in range(4):", "            R[i, u] = t[u]"]
        case 4:
            lanes = rng.choice((2, 4, 8))
            return ["    for i in range(n):", f"        for b in range((m + {lanes - 1}) // {lanes}):",
                    f"            for v in vectorized({lanes}):", f"                if b * {lanes} + v < m:",
                    f"                    R[i, b * {lanes} + v] = A[i, b * {lanes} + v] * {outer.float32(1)}"]
    return [f"    for i in {rng.choice(('range', 'parallel'))}(n):", f"        S[i] = {outer.float32()}"]


def random_accesses(seed: int) -> str:
    """Buffers A (n, m), K (n,) of int64, R (n, m) and a number k; reads and writes anywhere."""
    rng = random.Random(seed)
    values = Values(rng, ["A[i, j]"], ("i", "j", "k", "n", "m", "t"))
    first, end = rng.choice(("0", "1", "-2", "n // 2")), rng.choice(("n", "n + 1", "min(n, m)", "m", "n - 1", "max(n, m)"))
    name = rng.choice(("K[i]", "min(K[i], n - 1)", "max(min(K[j], n - 1), 0)", "K[i] % n", "i // 2 + j // 2", "(i * m + j) % m"))
    return "\n".join([
        'def f(A: Buffer[(n, m), "float32"], K: Buffer[(n,), "int64"], R: Buffer[(n, m), "float32"], k: int64):',
        f"    for i in range({first}, {end}):",
        f"        for j in range({rng.choice(('m', 'i + 1', 'm // 2', '(m + 3) // 4 * 4', '3'))}):",
        f"            t = {name}",
        f"            if {values.condition()} and {values.condition(0)}:",
        f"                R[{values.integer()}, {values.integer(1)}] = A[{values.integer(3)}, {values.integer()}] + A[t, j]",
        "            else:",
        f"                R[{values.integer(1)}, t] = A[i, {values.integer()}] + R[t, t % m]",
    ]) + "\n"


def random_expression(seed: int) -> str:
    """Tensors A (n, m), B (m, n) of float32 and K (n,) of int32; one or two results."""
    rng = random.Random(seed)
    lines = [f'def expression_{seed}(A: Tensor[(n, m), "float32"], B: Tensor[(m, n), "float32"], K: Tensor[(n,), "int32"], '
             'k: int64):']
    reads = ["A[i, j]", "B[j, i]", f"A[i, j + {rng.randrange(-2, 3)}]", "B[K[i], i]", "A[i, K[i]]"]
    names: list[str] = []
    for number in range(rng.randrange(1, 5)):
        name = f"C{number}"
        values = Values(rng, reads, ("i", "j", "k", "n", "m"))
        if rng.random() < 0.4:
            r = f"r{number}"
            inner = Values(rng, [f"A[i, {r}]", f"B[{r}, j % n]", f"A[i, {r} - 1]", f"B[{r}, i]"], ("i", "j", r, "k"))
            value = f"A[i, {r}] * B[{r}, i]" if rng.random() < 0.2 else f"{inner.float32(2)} + A[i, {r}]"
            lines.append(f"    {r} = reduce_axis(m)")
            lines.append(f"    {name} = compute((n, m), lambda i, j: {rng.choice(('sum', 'max', 'min'))}({value}, axis={r}))")
        else:
            lines.append(f"    {name} = compute((n, m), lambda i, j: float32(0) + {values.float32()})")
        reads += [f"{name}[i, j]", f"{name}[i, j - 1]"]
        names.append(name)
    results = [names[-1]] if rng.random() < 0.6 else list(dict.fromkeys([names[0], names[-1]]))
    return "\n".join([*lines, f"    return {', '.join(results)}"]) + "\n"
