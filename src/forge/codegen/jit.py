"""Objects linked into this process: no linker needed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from forge.codegen.objects import undefined_symbols
from forge.errors import CompileError

_names = itertools.count()


@cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine(), use_jit_link=True)


def routines(needed: set[str]) -> dict[str, int]:
    """Addresses of those C routines of the runtime that are among ``needed``."""
    from forge_runtime import routine_addresses

    known = routine_addresses()
    return {name: known[name] for name in sorted(needed) if name in known}


class JitLibrary:
    """Machine code linked from object files; unloaded when this object is garbage.

    Attributes:
        addresses: where the exported symbols are.
    """

    def __init__(self, objects: Iterable[bytes], exports: Iterable[str], imports: Mapping[str, int] | None = None) -> None:
        """Links ``objects``; ``imports`` gives addresses for undefined symbols besides those of this process.

        Raises:
            CompileError: a symbol is undefined or defined twice, or an object is damaged.
        """
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder()
        codes = list(objects)
        for code in codes:
            builder.add_object_img(code)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        names = list(exports)
        for name in names:
            builder.export_symbol(name)
        for name, address in routines(undefined_symbols(*codes)).items():
            builder.import_symbol(name, address)
        builder.add_current_process()
        try:
            self._tracker = builder.link(_linker(), f"forge.{next(_names)}")
        except RuntimeError as error:
            missing = ", ".join(sorted(undefined_symbols(*codes))) or "none"
            raise CompileError(f"codegen: linking failed: {error}; symbols needed from this process: {missing}") from error
        self.addresses: dict[str, int] = {name: self._tracker[name] for name in names}
        self._finalizer = weakref.finalize(self, self._tracker.close)
