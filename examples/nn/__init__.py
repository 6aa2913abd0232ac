"""Models written with ``forge.nn``. Each module has ``main``, which compiles a small one and prints what it computes."""
