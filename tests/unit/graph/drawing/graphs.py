"""Small pictures to draw."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.graph.groups import consistency_groups
from anabranch.graph.picture import Facts, Picture, picture

DIAMOND = {"S.B": ["s.a"], "S.C": ["s.a"], "S.D": ["S.B", "S.C"]}
CYCLE = {"S.B": ["s.a", "S.C"], "S.C": ["S.B"], "S.D": ["S.C"]}


def shown(
    reads: Mapping[str, list[str]] | Mapping[str, set[str]],
    facts: Mapping[str, Facts] | None = None,
    **declared: list[str],
) -> Picture:
    same = Facts(schedule="2s", staleness_seconds=90)
    given = dict.fromkeys(reads, same) | dict(facts or {})
    return picture(reads, given, consistency_groups(reads, declared))
