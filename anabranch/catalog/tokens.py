"""Bearer tokens of the server: who may do what, in which namespaces.

A token is random and long, so its SHA-256 is all that is kept: whoever reads the catalog learns none.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any

from sqlalchemy import Connection, insert, select, update

from anabranch.catalog import tables
from anabranch.errors import InvalidValue, UnknownName

PREFIX = "anabranch_"  # so that scanners for leaked secrets know one
EVERYWHERE = "*"
_NAMESPACE = re.compile(r"[^\s.*=]+(?:\.[^\s.*=]+)?\Z")


class Role(IntEnum):
    """Each may do what the one before it may, and more."""

    READER = 1  # reads tables and views
    WRITER = 2  # also writes, creates, changes and drops them
    ADMIN = 3  # also creates and drops namespaces, and registers tables

    @classmethod
    def parse(cls, text: str) -> Role:
        try:
            return cls[text.strip().upper()]
        except KeyError:
            known = ", ".join(each.name.lower() for each in cls)
            raise InvalidValue(f"there is no role {text!r}", hint=f"possible: {known}") from None


@dataclass(frozen=True)
class Grants:
    """Roles by namespace; `*` holds everywhere, and a namespace for those in it."""

    roles: Mapping[str, Role]

    @classmethod
    def of(cls, everywhere: str | None, inside: Sequence[str] = ()) -> Grants:
        """`inside` are texts `namespace=role`."""
        roles = {} if everywhere is None else {EVERYWHERE: Role.parse(everywhere)}
        for text in inside:
            namespace, equals, role = text.partition("=")
            if not equals or not _NAMESPACE.match(namespace):
                raise InvalidValue(
                    f"{text!r} is not of the form namespace=role", hint="for example shop=writer"
                )
            roles[namespace] = Role.parse(role)
        if not roles:
            raise InvalidValue("a token needs a role", hint="give --role or --grant namespace=role")
        return cls(roles)

    @classmethod
    def read(cls, record: Mapping[str, str]) -> Grants:
        return cls({namespace: Role.parse(role) for namespace, role in record.items()})

    @property
    def record(self) -> dict[str, str]:
        return {namespace: role.name.lower() for namespace, role in sorted(self.roles.items())}

    def role_in(self, namespace: Sequence[str]) -> Role | None:
        """The most that is granted for a namespace."""
        above = [
            EVERYWHERE,
            *(".".join(namespace[:depth]) for depth in range(1, len(namespace) + 1)),
        ]
        return max((self.roles[each] for each in above if each in self.roles), default=None)

    def allows(self, role: Role, namespace: Sequence[str]) -> bool:
        found = self.role_in(namespace)
        return found is not None and found >= role

    def allows_somewhere(self, role: Role) -> bool:
        return any(each >= role for each in self.roles.values())

    def leads_to(self, namespace: Sequence[str]) -> bool:
        """Whether something in the namespace, or the namespace itself, may be read."""
        inside = ".".join(namespace) + "."
        return self.allows(Role.READER, namespace) or any(
            each.startswith(inside) for each in self.roles
        )


@dataclass(frozen=True)
class Token:
    id: str
    name: str
    grants: Grants


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def create(
    c: Connection, name: str, grants: Grants, created_by: str, lifetime: float | None
) -> tuple[str, str]:
    """The id and the secret of a new token; the secret is told only here."""
    id_, secret = secrets.token_hex(4), PREFIX + secrets.token_urlsafe(32)
    now = tables.now(c)
    c.execute(
        insert(tables.tokens).values(
            id=id_,
            name=name,
            hash=hashed(secret),
            grants=grants.record,
            created_by=created_by,
            created_at=now,
            expires_at=None if lifetime is None else now + timedelta(seconds=lifetime),
        )
    )
    return id_, secret


def find(c: Connection, secret: str) -> Token | None:
    """The token of a secret, if it still holds."""
    table = tables.tokens
    row = c.execute(select(table).where(table.c.hash == hashed(secret))).mappings().one_or_none()
    if row is None or row["revoked_at"] is not None or _is_over(row["expires_at"], tables.now(c)):
        return None
    return Token(row["id"], row["name"], Grants.read(row["grants"]))


def listing(c: Connection) -> list[dict[str, Any]]:
    """All tokens, the newest first; no secret can be told from it."""
    table = tables.tokens
    now = tables.now(c)
    rows = c.execute(select(table).order_by(table.c.created_at.desc(), table.c.id)).mappings()
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "grants": row["grants"],
            "status": _status(row["revoked_at"], row["expires_at"], now),
            "created_at": row["created_at"],
            "created_by": row["created_by"],
            "expires_at": row["expires_at"],
        }
        for row in rows
    ]


def revoke(c: Connection, id_: str) -> None:
    table = tables.tokens
    known = list(c.execute(select(table.c.id).where(table.c.revoked_at.is_(None))).scalars())
    if id_ not in known:
        raise UnknownName(f"there is no token {id_}", name=id_, known=known)
    c.execute(update(table).where(table.c.id == id_).values(revoked_at=tables.now(c)))


def _status(revoked: datetime | None, expires: datetime | None, now: datetime) -> str:
    return "revoked" if revoked is not None else "expired" if _is_over(expires, now) else "active"


def _is_over(expires: datetime | None, now: datetime) -> bool:
    return expires is not None and expires <= now
