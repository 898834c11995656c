"""The name that was probably meant."""

from __future__ import annotations

import pytest

from anabranch.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("o.totl", ["o.toll_x", "o.id", "o.total"], "o.total"),
        ("o.total", ["c.total", "o.toll_x"], "c.total"),
        ("od.total", ["c.total", "o.total"], "o.total"),
        ("warehouse.sales", ["warehouse.names", "shop.Sales"], "shop.Sales"),
        ("warehouse.sales", ["warehouse.x"], None),
        ("regoin", ["id", "Region"], "Region"),
        ("x", [], None),
    ],
)
def test_the_last_part_counts_first(name: str, known: list[str], meant: str | None) -> None:
    assert did_you_mean(name, known) == (f'did you mean "{meant}"?' if meant else None)
