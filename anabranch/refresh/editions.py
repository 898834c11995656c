"""Rows of a stream table, and which editions of Anabranch may compute them.

A table is looked at once by each edition.  If that reads the query as the rows have it, it says so in
the catalog; if not, it recomputes, unless a newer edition has computed them: those are left to it.  So
of two processes the older one never undoes what the newer one did, whatever the order of their ticks.
"""

from __future__ import annotations

from anabranch import edition
from anabranch.cache import Cache
from anabranch.catalog.streams import StreamTable, computed_from, is_unplanned
from anabranch.errors import NewerEdition
from anabranch.names import TableName

_left: Cache[bool] = Cache(10_000, "left to newer editions")
_unplanned: Cache[bool] = Cache(10_000, "tables that this process could not plan")


def confirmed(stream: StreamTable, fingerprint: str, *, of_a_moment: bool = False) -> str:
    """What to note of rows that this edition has computed, or has found to be as it would have them.

    `of_a_moment`: a query of the current time has another fingerprint each time.
    """
    basis = stream.basis
    same = basis.token == stream.token and (of_a_moment or basis.fingerprint == fingerprint)
    follows = computed_from(stream.definition, fingerprint, *(basis.editions if same else ()))
    if is_unplanned(fingerprint):
        _unplanned.get((stream.name, follows), lambda: True)
    return follows


def refuse_newer(stream: StreamTable) -> None:
    """This edition would have other rows: it must not replace those of a newer one."""
    basis = stream.basis
    if not basis.confirms(stream) or edition.current() in basis.editions:
        return
    newest = max(basis.editions, default=edition.current())
    if edition.current() < newest:
        _left.get((stream.name, stream.computed_from), lambda: True)
        raise NewerEdition(
            f"{stream.name} was computed by a newer edition ({newest.shown}), which reads its query "
            f"differently from this one ({edition.current().shown})",
            hint="let the newer one refresh it, or upgrade this one; REFRESH STREAM TABLE "
            f"{stream.name} FULL takes the table back to this one",
        )


def to_be_looked_at(stream: StreamTable) -> bool:
    """Whether the rows may be computed from something else than what is declared, or in another way
    than they could be: a query that could not be planned is tried once by each process.
    """
    key = (stream.name, stream.computed_from)
    return not stream.is_confirmed and not is_left(*key) and key not in _unplanned


def is_left(name: TableName, follows: str | None) -> bool:
    """Whether this process has found that a newer edition has to see to the table."""
    return (name, follows) in _left
