"""The graph as an SVG picture."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given

from anabranch.graph.drawing.svg import LONGEST, svg
from anabranch.graph.drawing.words import age, cells, shortened
from anabranch.graph.picture import Facts, Picture
from tests.unit.graph.drawing.graphs import CYCLE, DIAMOND, shown
from tests.unit.graph.random_graphs import Reads, drawn, few

SVG = "{http://www.w3.org/2000/svg}"


def parts(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(svg(picture))


def told(root: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_a_diamond() -> None:
    root = parts(shown(DIAMOND, {"S.C": Facts("ERROR", last_error="boom")}))
    texts = told(root)
    assert texts[:4] == ["s.a", "source table", "S.B", "active · 2s · 1m old"]
    assert texts[-2:] == [
        "group 1: published together, epoch 0",
        "a source arrives here by several paths",
    ]
    boxes = [each for each in root.iter(f"{SVG}rect") if "box" in each.get("class", "")]
    assert len(boxes) == 4
    edges = [each for each in root.iter(f"{SVG}path") if each.get("class") == "edge"]
    assert len(edges) == 4
    assert any("boom" in "".join(title.itertext()) for title in root.iter(f"{SVG}title"))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for box in boxes:
        assert 0 <= float(box.get("x", "")) < width and 0 <= float(box.get("y", "")) < height


def test_a_cycle_leads_back() -> None:
    root = parts(shown(CYCLE))
    assert sum(each.get("class") == "edge back" for each in root.iter(f"{SVG}path")) == 1
    assert "read each other: refreshed to a fixed point" in told(root)


def test_an_empty_picture_and_odd_names() -> None:
    assert told(parts(Picture())) == []
    assert '`<"&>`.x' in told(parts(shown({'`<"&>`.x': []})))


@few
@given(drawn(cyclic=True))
def test_every_table_is_there(reads: Reads) -> None:
    picture = shown(reads)
    assert {each.name for each in picture.tables} <= set(told(parts(picture)))


def test_long_names_keep_both_ends() -> None:
    name = "warehouse." + "x" * 60 + "_by_day"
    short = shortened(name, LONGEST)
    assert cells(short) == LONGEST and short.startswith("warehouse.") and short.endswith("_by_day")
    assert shortened("shop.sales", LONGEST) == "shop.sales"
    assert cells("売上") == 4


def test_ages() -> None:
    assert [age(each) for each in (0.4, 1, 59, 61, 7300, 200_000)] == [
        "fresh", "1s old", "59s old", "1m old", "2h old", "2d old",
    ]  # fmt: skip
