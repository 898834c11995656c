"""A picture of the graph: every table once, with its place, its group and what is known of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from anabranch.graph.components import component_ids, components
from anabranch.graph.diamonds import diamonds
from anabranch.graph.groups import ConsistencyGroup
from anabranch.graph.order import closure, dependants

Reads = Mapping[str, Iterable[str]]


@dataclass(frozen=True)
class Facts:
    """What a stream table says of itself besides its place in the graph."""

    status: str = "ACTIVE"
    refresh_mode: str = "AUTO"
    schedule: str | None = None
    staleness_seconds: float | None = None
    last_error: str | None = None


@dataclass(frozen=True)
class PictureTable:
    """`facts` is None for a source; `group` is the number of a group with other members.

    `shared_sources` are what reaches a convergence point on several ways.
    """

    name: str
    facts: Facts | None = None
    reads: tuple[str, ...] = ()
    shared_sources: tuple[str, ...] = ()
    group: int | None = None
    component: str | None = None
    is_view: bool = False

    @property
    def kind(self) -> str:
        if self.is_view:
            return "view"
        return "source table" if self.is_source else "stream table"

    @property
    def is_source(self) -> bool:
        return self.facts is None

    @property
    def converges(self) -> bool:
        return bool(self.shared_sources)


@dataclass(frozen=True)
class PictureGroup:
    """Tables that are published together; `declared` names the refresh groups in it."""

    number: int
    id: str
    members: tuple[str, ...]
    convergence_points: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    epoch: int = 0


@dataclass(frozen=True)
class Picture:
    """Sources first, then every table after those it reads as far as cycles allow."""

    tables: tuple[PictureTable, ...] = ()
    groups: tuple[PictureGroup, ...] = ()
    components: tuple[tuple[str, ...], ...] = field(default=())

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        return {each.name: each.reads for each in self.tables}

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Upstream and reader."""
        return [(up, each.name) for each in self.tables for up in each.reads]

    def around(self, name: str) -> Picture:
        """Only what the table reads and what reads it, directly or through others."""
        kept = closure([name], self.reads) | closure([name], dependants(self.reads))
        return Picture(
            tables=tuple(
                replace(each, reads=tuple(up for up in each.reads if up in kept))
                for each in self.tables
                if each.name in kept
            ),
            groups=tuple(each for each in self.groups if kept.intersection(each.members)),
            components=tuple(each for each in self.components if kept.intersection(each)),
        )

    def data(self) -> dict[str, Any]:
        ids = {group.number: group.id for group in self.groups}
        return {
            "tables": [_data(each, ids) for each in self.tables],
            "edges": [{"upstream": up, "table": name} for up, name in self.edges],
            "groups": [{"group_id": each.id, **_without_id(each)} for each in self.groups],
            "components": [list(each) for each in self.components],
        }


def picture(
    reads: Reads,
    facts: Mapping[str, Facts],
    groups: Sequence[ConsistencyGroup[Any]],
    views: Collection[str] = (),
) -> Picture:
    """The keys of `reads` are the stream tables; whatever else they read is a source."""
    shown = [_group(number, each) for number, each in enumerate(_larger(groups), 1)]
    number = {name: each.number for each in shown for name in each.members}
    shared = {each.convergence: each.shared_sources for each in diamonds(reads)}
    home = component_ids(reads)
    order = components(reads)
    sources = sorted({up for ups in reads.values() for up in ups if up not in reads})
    tables = [
        PictureTable(
            name=name,
            facts=facts.get(name, Facts()),
            reads=tuple(sorted(set(reads[name]))),
            shared_sources=shared.get(name, ()),
            group=number.get(name),
            component=home.get(name),
        )
        for part in order
        for name in part.members
    ]
    return Picture(
        tables=(*(PictureTable(name, is_view=name in views) for name in sources), *tables),
        groups=tuple(shown),
        components=tuple(part.members for part in order if part.cyclic),
    )


def _without_id(group: PictureGroup) -> dict[str, Any]:
    return {name: value for name, value in asdict(group).items() if name != "id"}


def _larger(groups: Iterable[ConsistencyGroup[Any]]) -> list[ConsistencyGroup[Any]]:
    return [each for each in groups if not each.is_singleton]


def _group(number: int, group: ConsistencyGroup[Any]) -> PictureGroup:
    return PictureGroup(
        number=number,
        id=str(group.id),
        members=tuple(str(name) for name in group.members),
        convergence_points=tuple(str(name) for name in group.convergence_points),
        declared=group.declared,
        epoch=group.epoch,
    )


def _data(table: PictureTable, ids: Mapping[int, str]) -> dict[str, Any]:
    facts = asdict(table.facts) if table.facts else {}
    return {
        "name": table.name,
        "kind": table.kind,
        "reads": list(table.reads),
        "shared_sources": list(table.shared_sources),
        "group_id": ids[table.group] if table.group else None,
        "scc_id": table.component,
        **facts,
    }
