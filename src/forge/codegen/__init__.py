"""From loop functions to machine code; the only importer of llvmlite.

    module.emit_module            functions -> LLVM IR text (functions, expressions, memory, intrinsics, arithmetic, conversions)
    entry.emit_library_entry      programs -> the module with their entries and tables (dynamic: memory whose size is known late)
    compile.compile_modules       IR text -> object code, in a pool of processes (worker)
    jit.JitLibrary                objects -> code in this process
    link.link_library             objects, C runtime -> a shared library, with a place for weights (elf)

LLVM has no vectors of elementary functions on every CPU, and its conversions of narrow floats call library routines, so both are
written here as loop IR (transcendental: exponential, powers, trigonometry, division; narrow) and expanded where they are used.
"""
