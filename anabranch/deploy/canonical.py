"""The versioned hash of an object: over canonical forms, so that an edit of layout is no change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from anabranch.deploy.snapshot import IndexFact
from anabranch.sql.statements.canonical import canonical, canonical_query, metadata

__all__ = ["VERSION", "canonical", "canonical_query", "hash_of", "metadata", "object_hash"]

VERSION = 1  # of the canonical form; raise it when the same text gets another form


def hash_of(*forms: str) -> str:
    """`v1:…`: hashes of different versions are never equal."""
    digest = hashlib.sha256()
    for form in forms:
        text = form.encode()
        digest.update(len(text).to_bytes(8, "big"))
        digest.update(text)
    return f"v{VERSION}:{digest.hexdigest()[:32]}"


def object_hash(form: str, indexes: Iterable[IndexFact] = ()) -> str:
    """Over the statement and, in any order, its indexes."""
    return hash_of(
        form, *sorted(f"{each.name} {each.cluster} {each.canonical}" for each in indexes)
    )
