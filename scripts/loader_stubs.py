"""Writes ``src/forge/module/doors.pyi``: the loaders of all formats, for editors and type checkers.

At run time they are made of the formats' own functions, whose signatures and docstrings the stub repeats.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

from forge.frontends import formats

STUB = Path(__file__).parent.parent / "src" / "forge" / "module" / "doors.pyi"
HEADING = '''"""The loaders of all formats. Written by scripts/loader_stubs.py from the functions that `Format.load` names."""

'''


def stub() -> str:
    """The text of the stub."""
    imports: set[str] = {"from forge.module import IRModule"}
    methods = []
    for door in formats.all_formats():
        file = inspect.getsourcefile(door.load)
        assert file is not None
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
        function = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == door.load.__name__)
        imports |= set(_imports(tree, _names(function)))
        methods.append(_method(function, door.name))
    names = [f"from_{name}" for name in formats.names()]
    aliases = "".join(f"{name} = Doors.{name}\n" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{HEADING}{chr(10).join(sorted(imports))}\n\nclass Doors:\n{''.join(methods)}{aliases}\n__all__ = [{listed}]\n"


def _names(function: ast.FunctionDef) -> set[str]:
    """Names in the annotations of a function."""
    own = function.args
    arguments = [a for a in (*own.posonlyargs, *own.args, own.vararg, *own.kwonlyargs, own.kwarg) if a is not None]
    return {n.id for a in arguments if a.annotation for n in ast.walk(a.annotation) if isinstance(n, ast.Name)}


def _imports(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """The statements that bring ``names`` into a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name) in names:
                    yield ast.unparse(ast.ImportFrom(node.module, [alias], 0) if isinstance(node, ast.ImportFrom)
                                      else ast.Import([alias]))


def _method(function: ast.FunctionDef, name: str) -> str:
    """A class method with the signature and docstring of a loader."""
    documentation = ast.get_docstring(function) or ""
    function.name = f"from_{name}"
    function.args.args.insert(0, ast.arg("cls"))
    function.returns = ast.Name("IRModule")
    function.decorator_list = [ast.Name("classmethod")]
    function.body = [ast.Expr(ast.Constant(...))]
    first, _, rest = documentation.partition("\n")
    text = ast.unparse(function).replace(":\n    ...", f':\n    """{first}\n{textwrap.indent(rest, "    ")}\n    """\n')
    return textwrap.indent(text, "    ", lambda line: bool(line.strip())) + "\n"
