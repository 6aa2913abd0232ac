"""Pages in a real browser: the Chromium of the system, without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """The path of a Chromium; skips the test where there is none. FORGE_CHROMIUM may name one."""
    found = os.environ.get("FORGE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium: none of {', '.join(NAMES)} is installed, and FORGE_CHROMIUM names none")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. Chromium's own sandbox needs rights that test machines may not give; the pages are ours."""
    api = pytest.importorskip("playwright.sync_api")
    path = executable()
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A page that is open, with what it said on the console and what it asked of the network."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        self.frame()

    def frame(self) -> None:
        """Waits until what was asked for is drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def boxes(self) -> int:
        """Boxes that the layout shows, in sight or not."""
        return int(self.page.evaluate("() => drawing.boxes.length + drawing.frames.length"))

    def click(self, label: str, times: int = 1) -> None:
        """Clicks a box or frame by the text on it."""
        place = self.page.locator("#canvas [data-path]", has=self.page.get_by_text(label, exact=True)).first.bounding_box()
        assert place is not None
        self.page.mouse.click(place["x"] + 40, place["y"] + 10, click_count=times)
        self.frame()
