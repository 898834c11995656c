"""Verbs that look after catalog and warehouse: upkeep, damage, copies."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from anabranch import backup as backups
from anabranch import upkeep
from anabranch.catalog.store import Store
from anabranch.lake import adopt as adopting
from anabranch.lake import recover as recovering
from anabranch.lake import restore as restoring
from anabranch.lake.archive import Archive
from anabranch.refresh import check as checking
from anabranch.session import Session
from anabranch.settings import Settings

Rows = list[dict[str, Any]]


def maintain(session: Session) -> dict[str, Any]:
    session.refuse_in_transaction("upkeep cannot run", "maintain after it")
    return upkeep.maintain(session.runtime)


def check(
    session: Session,
    repair: bool = False,
    deep: bool = False,
    *,
    roll_back_sources: bool = False,
    previous_metadata: bool = False,
) -> Rows:
    return checking.check(
        session.runtime,
        repair=repair,
        deep=deep,
        roll_back_sources=roll_back_sources,
        previous_metadata=previous_metadata,
    )


def recover(session: Session) -> Rows:
    session.refuse_in_transaction("nothing can be recovered", "recover after it")
    return [asdict(each) for each in recovering.recover(session.runtime.lake)]


def adopt(session: Session) -> dict[str, Any]:
    session.refuse_in_transaction("nothing can be adopted", "adopt after it")
    return asdict(adopting.adopt(session.runtime.lake))


def backup(
    session: Session, destination: str | os.PathLike[str], *, verify: bool = False
) -> dict[str, Any]:
    session.refuse_in_transaction("a backup cannot run", "back up after it")
    return backups.backup(session.runtime, os.fspath(destination), verify=verify)


def restore(
    source: str | os.PathLike[str], settings: Settings, cut: int | None = None
) -> dict[str, Any]:
    """Into the empty place that the settings name."""
    archive = Archive(os.fspath(source))
    archive.chosen(cut)  # refused before anything is made
    settings.create_home()
    store = Store.open(settings.catalog, fsync=settings.fsync)
    try:
        return restoring.restore(archive, store, settings.warehouse, cut)
    finally:
        store.close()
