"""What a token may do, in which namespaces."""

from __future__ import annotations

import pytest

from anabranch.catalog.tokens import Grants, Role
from anabranch.errors import InvalidValue


def test_the_most_that_is_granted_counts() -> None:
    grants = Grants.of("reader", ["shop=writer", "db.inner=admin"])
    assert grants.role_in(("other",)) is Role.READER
    assert grants.role_in(("shop",)) is Role.WRITER
    assert grants.role_in(("shop", "below")) is Role.WRITER
    assert grants.role_in(("db",)) is Role.READER
    assert grants.role_in(("db", "inner")) is Role.ADMIN
    assert not grants.allows(Role.WRITER, ("shops",)), "a name that only begins so is another one"


def test_a_namespace_of_ones_own_and_the_way_to_it() -> None:
    grants = Grants.of(None, ["db.inner=reader"])
    assert grants.role_in(("db",)) is None and grants.leads_to(("db",))
    assert not grants.leads_to(("d",)) and not grants.leads_to(("other",))
    assert grants.allows_somewhere(Role.READER) and not grants.allows_somewhere(Role.WRITER)
    assert Grants.read(grants.record) == grants


@pytest.mark.parametrize(
    "inside", ["shop", "shop=", "=reader", "*=admin", "a.b.c=reader", "a b=reader"]
)
def test_grants_have_a_form(inside: str) -> None:
    with pytest.raises(InvalidValue):
        Grants.of(None, [inside])


def test_a_token_needs_a_role() -> None:
    with pytest.raises(InvalidValue, match="needs a role"):
        Grants.of(None)
    with pytest.raises(InvalidValue, match="there is no role"):
        Grants.of("owner")
