"""The site builds without a warning, and answers what newcomers ask within two clicks of its start page."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parent.parent.parent
QUESTIONS = tomllib.loads((Path(__file__).parent / "questions.toml").read_text())["question"]
CLICKS = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Page(HTMLParser):
    """A page of the site: its links, and the words and links of its article, without the side bar that leads everywhere."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.words: list[str] = []
        self.links: list[str] = []
        self.shown: list[str] = []
        self.anchors: set[str] = set()
        self._articles = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._articles += tag == "article"
        if attributes.get("id"):
            self.anchors.add(str(attributes["id"]))
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
            self.shown += self.links[-1:] if self._articles else []

    def handle_endtag(self, tag: str) -> None:
        self._articles -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self._articles:
            self.words.append(data)

    @cached_property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def target(self, link: str) -> tuple[Path, str] | None:
        """The file and the anchor that a link of the site leads to; None for one that leads elsewhere."""
        address, anchor = urldefrag(link)
        if ":" in address:
            return None
        return ((self.path.parent / unquote(address)).resolve() if address else self.path), unquote(anchor)


class Site:
    """All pages of a folder."""

    def __init__(self, folder: Path) -> None:
        self.start = folder.resolve() / "index.html"
        self.pages = {path: Page(path) for path in folder.resolve().rglob("*.html")}

    def dead_links(self) -> list[str]:
        dead = []
        for page in self.pages.values():
            for link in page.links:
                if (found := page.target(link)) is None:
                    continue
                path, anchor = found
                if not path.exists() or (anchor and path in self.pages and anchor not in self.pages[path].anchors):
                    dead.append(f"{page.path.name}: {link}")
        return dead

    def within(self, clicks: int) -> list[Page]:
        """The pages that so many clicks on links in articles lead to from the start page."""
        reached = {self.start}
        for _ in range(clicks):
            links = [found for path in reached for link in self.pages[path].shown if (found := self.pages[path].target(link))]
            reached |= {path for path, _ in links if path in self.pages}
        return [self.pages[path] for path in reached]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    for package in ("torch", "sphinx", "furo", "myst_nb", "sphinx_copybutton"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", ROOT / "docs", folder / "html"]
    done = subprocess.run([*command, "-d", folder / "trees"], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Site(folder / "html")


def test_no_link_is_dead(site: Site) -> None:
    assert len(site.pages) > 60
    assert site.dead_links() == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["asks"])
def test_questions_are_answered_within_two_clicks(site: Site, question: dict[str, str]) -> None:
    missing = {page.path: [words for words in question["answer"] if words not in page.text] for page in site.within(CLICKS)}
    assert [] in missing.values(), min(missing.items(), key=lambda item: len(item[1]))


def page(folder: Path, name: str, article: str) -> None:
    (folder / name).write_text(f'<nav><a href="hidden.html">x</a></nav><article>{article}</article><h1 id="foot">x</h1>')


def test_links_and_clicks_are_counted(tmp_path: Path) -> None:
    page(tmp_path, "index.html", '<a href="one.html">one</a> <a href="https://example.org/none">elsewhere</a>')
    page(tmp_path, "one.html", 'words <a href="two.html#foot">two</a> <a href="#nothing">dead</a>')
    page(tmp_path, "two.html", '<a href="three.html">three</a>')
    page(tmp_path, "three.html", '<a href="gone.html">dead</a>')
    page(tmp_path, "hidden.html", "")
    site = Site(tmp_path)
    assert sorted(site.dead_links()) == ["one.html: #nothing", "three.html: gone.html"]
    assert sorted(p.path.name for p in site.within(2)) == ["index.html", "one.html", "two.html"]
    assert site.pages[tmp_path / "one.html"].text == "words two dead"
