"""A stand-in for Anabranch, so that the commands are tested without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.session import CliSession
from anabranch.errors import UnknownName
from anabranch.graph.picture import Facts, Picture, picture
from anabranch.model import Column
from anabranch.names import TableName
from anabranch.settings import TABLE, Settings


@dataclass
class FakeType:
    name: str

    def simpleString(self) -> str:
        return self.name


@dataclass
class FakeField:
    name: str
    dataType: FakeType


@dataclass
class FakeSchema:
    fields: list[FakeField]


@dataclass
class FakeFrame:
    """As much of a DataFrame as the command line uses."""

    columns: dict[str, str]
    data: list[tuple[Any, ...]]

    @property
    def schema(self) -> FakeSchema:
        return FakeSchema([FakeField(name, FakeType(one)) for name, one in self.columns.items()])

    def limit(self, count: int) -> FakeFrame:
        return FakeFrame(self.columns, self.data[:count])

    def collect(self) -> list[tuple[Any, ...]]:
        return self.data


class FakeAnabranch:
    def __init__(self) -> None:
        self.statements: list[str] = []
        self.equal = True
        self.populated = True
        self.closed = False
        self.raises: BaseException | None = None
        self.on_progress: Callable[[str, dict[str, Any]], None] = lambda event, data: None

    def sql(self, text: str) -> Any:
        self.statements.append(text)
        if self.raises:
            raise self.raises
        if "nowhere" in text:
            raise UnknownName("there is no table nowhere", name="nowhere", known=["somewhere"])
        if text.startswith("SELECT"):
            rows = [(1, "eu", Decimal("10.50")), (2, None, Decimal("3000.00"))]
            return FakeFrame({"id": "bigint", "region": "string", "amount": "decimal(12,2)"}, rows)
        if text.startswith("INSERT"):
            return {
                "statement": "INSERT",
                "table": "shop.sales",
                "rows_inserted": 2,
                "rows_deleted": 0,
            }
        return None

    def status(self) -> list[dict[str, Any]]:
        if self.raises:
            raise self.raises
        entry = {"name": "shop.by_region", "status": "ACTIVE", "refresh_mode": "AUTO"}
        facts = {"schedule": None, "last_error": None, "frontier": {"a": 1}}
        return [entry | facts | {"populated": self.populated}]

    def history(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        if name == "shop.nothing":
            raise UnknownName("there is no stream table shop.nothing", name=name, known=[])
        entry = {"refresh_id": 1, "table": "shop.by_region", "cut_id": 3, "action": "DIFFERENTIAL"}
        return [entry | {"status": "COMPLETED", "reason": None, "error": None}] * (limit or 3)

    def events(self, name: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        entry = {"event_id": 1, "at": "now", "table": "shop.by_region", "kind": "MODE_CHANGED"}
        return [entry | {"message": "FULL after DIFFERENTIAL: in full"}]

    def cuts(self, limit: int | None = None) -> list[dict[str, Any]]:
        return [{"cut_id": 3, "published_at": "now", "kind": "refresh", "tables": ["a.b", "a.c"]}]

    def graph(self, name: str | None = None) -> Picture:
        facts = {"shop.by_region": Facts(schedule="2s", staleness_seconds=0.1)}
        whole = picture({"shop.by_region": ["shop.sales"]}, facts, [])
        if name and name not in [each.name for each in whole.tables]:
            raise UnknownName(f"no table {name}", name=name, known=["shop.by_region"])
        return whole.around(name) if name else whole

    def explain(self, name: str, *, rules: bool = False) -> str:
        return f"plan of {name}"

    def refresh(self, name: str | None = None, *, full: bool = False) -> list[dict[str, Any]]:
        self.full = full
        self.on_progress("refresh_started", {"table": "shop.by_region"})
        self.on_progress("refresh_finished", {"table": "shop.by_region"})
        return self.history()[:1]

    def verify(self, name: str) -> dict[str, Any]:
        unexpected = [] if self.equal else [{"region": "eu"}]
        found = {"table": name, "equal": self.equal, "missing": [], "unexpected": unexpected}
        return found | {"missing_rows": 0, "unexpected_rows": len(unexpected)}

    def maintain(self) -> dict[str, int]:
        return {"files_removed": 2, "bytes_removed": 2048}

    def tables(self) -> list[dict[str, Any]]:
        stream = {"table": "shop.by_region", "kind": "stream table", "status": "ACTIVE"}
        return [stream, {"table": "shop.sales", "kind": "source table", "status": None}]

    def columns(self) -> dict[TableName, tuple[Column, ...]]:
        columns = (Column("id", "bigint"), Column("region", "string"))
        return {TableName.of("shop", "by_region"): (), TableName.of("shop", "sales"): columns}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def ab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAnabranch]:
    """The stand-in that every command connects to, in an empty folder."""
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".anabranch").mkdir()
    fake = FakeAnabranch()

    def connect(session: CliSession, settings: Settings) -> FakeAnabranch:
        fake.on_progress = session.progress
        return fake

    monkeypatch.setattr(CliSession, "connect", connect)
    yield fake
