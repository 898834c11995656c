"""Verbs for the catalogs of others that are attached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.session import Session
from anabranch.sql.statements import records as s
from anabranch.tables import catalogs

Done = dict[str, Any]
AROUND = "do it before or after"


def attach(
    session: Session,
    name: str,
    type: str,
    properties: Mapping[str, Any],
    *,
    or_replace: bool = False,
    if_not_exists: bool = False,
) -> None:
    session.refuse_in_transaction("a catalog cannot be attached", AROUND)
    catalogs.attach(
        session.runtime,
        name,
        type,
        properties,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def detach(session: Session, name: str, *, if_exists: bool = False) -> None:
    session.refuse_in_transaction("a catalog cannot be detached", AROUND)
    catalogs.detach(session.runtime, name, if_exists=if_exists)


def attach_catalog(session: Session, statement: s.AttachCatalog) -> Done:
    attach(
        session,
        statement.name,
        statement.type,
        statement.properties,
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    return {"statement": "ATTACH CATALOG", "catalog": statement.name}


def detach_catalog(session: Session, statement: s.DetachCatalog) -> Done:
    detach(session, statement.name, if_exists=statement.if_exists)
    return {"statement": "DETACH CATALOG", "catalog": statement.name}
