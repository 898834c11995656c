"""Work under way: who owns it, and whether the owner still lives."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, delete, insert, literal, select, update

from anabranch.cache import cached
from anabranch.catalog import boot, tables

SILENCE = timedelta(hours=1)  # an owner on another host that was silent so long is dead


@dataclass(frozen=True)
class StageRow:
    id: str
    host: str
    pid: int
    process_start: str
    heartbeat_at: datetime
    tables: tuple[str, ...] = ()
    cut_id: int | None = None


def mine(stage_id: str) -> StageRow:
    """A row for a stage of this process."""
    return StageRow(stage_id, host(), os.getpid(), process_start(os.getpid()) or "", tables.now())


def add(c: Connection, row: StageRow) -> bool:
    """Write a stage down; False when the cut that it reads is recorded no more."""
    facts = {**vars(row), "tables": list(row.tables), "heartbeat_at": tables.now(c)}
    if not row.cut_id:
        c.execute(insert(tables.stages).values(**facts))
        return True
    values = [literal(value, tables.stages.c[name].type) for name, value in facts.items()]
    recorded = select(*values).where(tables.cuts.c.cut_id == row.cut_id)
    added = insert(tables.stages).from_select(list(facts), recorded)
    # without RETURNING not every driver tells how many rows an INSERT added
    return c.execute(added.returning(tables.stages.c.id)).first() is not None


def beat(c: Connection, stage_id: str, touched: Iterable[str]) -> bool:
    """Say that the owner lives; False when the row is gone, so the stage was given up for dead."""
    statement = update(tables.stages).where(tables.stages.c.id == stage_id)
    values = {"heartbeat_at": tables.now(c), "tables": sorted(touched)}
    return c.execute(statement.values(**values)).rowcount == 1


def reads(c: Connection, stage_id: str, cut_id: int | None) -> None:
    """Note that a stage reads another cut from now on."""
    c.execute(update(tables.stages).where(tables.stages.c.id == stage_id).values(cut_id=cut_id))


def remove(c: Connection, stage_id: str) -> bool:
    return c.execute(delete(tables.stages).where(tables.stages.c.id == stage_id)).rowcount == 1


def is_there(c: Connection, stage_id: str) -> bool:
    found = select(tables.stages.c.id).where(tables.stages.c.id == stage_id)
    return c.execute(found).first() is not None


def all_stages(c: Connection) -> list[StageRow]:
    rows = c.execute(select(tables.stages)).mappings()
    return [StageRow(**{**row, "tables": tuple(row["tables"])}) for row in rows]


def alive(row: StageRow, at: datetime) -> bool:
    """A process of this host is asked; others must have spoken lately.

    A process number alone proves nothing, it may have been given away: its start must agree.
    """
    if row.host == host():
        return process_start(row.pid) == row.process_start
    return at - row.heartbeat_at < SILENCE


def of_other_machines(c: Connection) -> dict[str, str]:
    """The hosts of stages that a process of another machine has begun, by stage.

    Containers of one machine share its kernel, and so an SQLite file; where a system does not tell
    its boot, nothing is known.
    """
    here = _machine(host())
    rows = c.execute(select(tables.stages.c.id, tables.stages.c.host))
    found = {row.id: str(row.host) for row in rows}
    return {id_: host for id_, host in found.items() if here and _machine(host) not in ("", here)}


def _machine(host: str) -> str:
    parts = host.split()
    return parts[1] if len(parts) == 3 else ""


@cached(1)
def host() -> str:
    """This machine; containers that share a name differ by their boot or namespace."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {boot.boot_id()} {space}".strip()


def process_start(pid: int) -> str | None:
    """When a process started, in whatever unit the system counts; None when there is none."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _start_without_proc(pid)
    except OSError:
        return None
    return None if after_name[0] in "ZX" else after_name[19]


def _start_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "alive"
