"""Statements about attached catalogs.

ATTACH [OR REPLACE] CATALOG [IF NOT EXISTS] c TYPE t [WITH (k = v, …)]
DETACH CATALOG [IF EXISTS] c
"""

from __future__ import annotations

from types import MappingProxyType

from anabranch.sql.statements.options import read_options
from anabranch.sql.statements.records import AttachCatalog, DetachCatalog, Statement
from anabranch.sql.text.cursor import Cursor

CATALOG = "a catalog's name"


def attach(cursor: Cursor) -> Statement:
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.expect("CATALOG")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.identifier(CATALOG)
    cursor.expect("TYPE")
    kind = "-".join(cursor.parts("a catalog's type, such as rest or sql"))
    properties = read_options(cursor) if cursor.accept("WITH") else MappingProxyType({})
    cursor.expect_end()
    return AttachCatalog(name, kind.lower(), properties, or_replace, if_not_exists)


def detach(cursor: Cursor) -> Statement:
    cursor.expect("CATALOG")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.identifier(CATALOG)
    cursor.expect_end()
    return DetachCatalog(name, if_exists)
