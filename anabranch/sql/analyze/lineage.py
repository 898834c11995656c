"""Where the columns of a query come from, as it is kept with a stream table.

computed   source columns that the values of a column are computed from
decides    source columns that only decide which rows there are, or which rows a value is computed
           over: filters, joins, groups, windows, DISTINCT, LIMIT, membership in a set

A column that cannot be followed by itself, as behind a PIVOT, is said to come from all that it may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.names import TableName
from anabranch.sql.analyze.columns import Flow, Ref, Relation

COMPUTED, DECIDES = "computed", "decides"
Record = dict[str, Any]


@dataclass(frozen=True)
class Lineage:
    """`decides` is about all columns; what only one of them depends on is in its own flow."""

    columns: tuple[tuple[str, Flow], ...] = ()
    decides: frozenset[Ref] = frozenset()

    @staticmethod
    def of(relation: Relation, names: Sequence[str]) -> Lineage:
        """`names` are those of the columns that the query gives, in order."""
        if relation.columns is None or len(relation.columns) != len(names):
            whole = relation.whole
            return Lineage(tuple((name, whole) for name in names), whole.decides)
        pairs = zip(names, relation.columns, strict=True)
        return Lineage(tuple((name, each.flow) for name, each in pairs), relation.flow.all)

    def sources(self, column: str) -> list[tuple[str, Ref]]:
        """The kind of each source column of a column; what it is computed from first."""
        flow = next((each for name, each in self.columns if name.lower() == column.lower()), None)
        if flow is None:
            return []
        deciding = (flow.decides | self.decides) - flow.computed
        return [
            *((COMPUTED, each) for each in sorted(flow.computed)),
            *((DECIDES, each) for each in sorted(deciding)),
        ]

    def record(self) -> Record:
        """As plain JSON."""
        return {
            "columns": [
                [name, _plain(flow.computed), _plain(flow.decides)] for name, flow in self.columns
            ],
            "decides": _plain(self.decides),
        }

    @staticmethod
    def read(record: Mapping[str, Any]) -> Lineage:
        columns = (
            (name, Flow(_refs(computed), _refs(decides)))
            for name, computed, decides in record["columns"]
        )
        return Lineage(tuple(columns), _refs(record["decides"]))


UNKNOWN = Lineage()


def _plain(refs: frozenset[Ref]) -> list[list[str]]:
    return [[str(each.table), each.column] for each in sorted(refs)]


def _refs(pairs: Sequence[Sequence[str]]) -> frozenset[Ref]:
    return frozenset(Ref(TableName.parse(table), column) for table, column in pairs)
