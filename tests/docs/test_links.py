"""Links between the pages lead to pages and headings that exist, in the repository and on the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
AT_THE_ROOT = [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")]
PAGES = [*AT_THE_ROOT, *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """The text without blocks of code."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    found = LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def github(heading: str) -> str:
    """The anchor of a heading as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_the_site(heading: str) -> str:
    """The anchor as pymdownx's slugify makes it: tags and edges are cut, blanks become hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """What both make of the headings; of equal ones the first."""
    headings = re.findall(r"(?m)^#+ (.+?)\s*$", prose(page))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading) for heading in headings]
    return {github(heading) for heading in plain if github(heading) == on_the_site(heading)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_menu_of_the_site_and_linked_from_the_index() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    menu = set(re.findall(r"[\w-]+\.md", site.partition("\nnav:")[2]))
    pages = {page.name for page in DOCS.glob("*.md")}
    assert menu == pages | {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    index = {Path(link.partition("#")[0]).name for link in links(DOCS / "index.md")}
    assert pages - index == {"index.md"}


PICTURES = sorted((DOCS / "images").glob("*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_ask_nothing_of_a_network(picture: Path) -> None:
    text = picture.read_text("utf-8")
    asked = re.findall(r"(?:href|src|url|@import)[\s=(\"']+https?://[^\s\"')]+", text)
    assert asked == []


def test_packages_that_the_architecture_names_exist() -> None:
    named = re.findall(
        r"`((?:anabranch|tests)/[\w/]+)`", (DOCS / "architecture.md").read_text("utf-8")
    )
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_package_is_in_the_table_of_the_architecture() -> None:
    page = (DOCS / "architecture.md").read_text("utf-8")
    listed = re.findall(r"^\| `anabranch/(\w+)` \| .+ \|$", page, re.MULTILINE)
    packages = {each.parent.name for each in (ROOT / "anabranch").glob("*/__init__.py")}
    assert set(listed) == packages and len(listed) == len(packages)
