"""Sessions: states that live from one call to the next; functions of one library; donated arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

from forge_runtime import static_sources
from tests.runtime.building import compile_c
from tests.runtime.test_native import execute, has_sanitizer

HERE = Path(__file__).parent


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sessions_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    if not has_sanitizer(sanitizer):
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    program = tmp_path / "sessions"
    compile_c(f"-fsanitize={sanitizer}", "-g", HERE / "session_stress.c", *static_sources(), "-lm", "-o", program)
    execute(program, "2")
