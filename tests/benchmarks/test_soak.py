"""The soak of sessions, for two seconds: every result is compared there."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import soak


def test_a_short_soak(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--minutes", "0.03", "--threads", "4", "--sessions", "2"]) == 0
    assert "0.03 minutes, 4 threads, 2 sessions" in capsys.readouterr().out


def test_a_difference_ends_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak.Work, "_answers", lambda work, prompt: [np.zeros((1, soak.WIDTH))] * (soak.STEPS + 1))
    assert soak.main(["--minutes", "0.2", "--threads", "2", "--sessions", "1"]) == 1
    assert "got another result than alone" in capsys.readouterr().out
