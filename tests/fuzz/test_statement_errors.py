"""Errors of single statements that once misled."""

from __future__ import annotations

import pytest

from anabranch.errors import SqlSyntaxError
from anabranch.sql.text.parse import parse_query


@pytest.mark.parametrize("type_", ["VOID", "nothing"])
def test_a_cast_to_what_is_no_type_names_it(type_: str) -> None:
    with pytest.raises(SqlSyntaxError, match=f"{type_.upper()} is not a type") as caught:
        parse_query(f"SELECT CAST(a AS {type_}) AS b FROM t")
    assert (caught.value.line, caught.value.column) == (1, 18)
    assert ("NULL" in str(caught.value.hint)) == (type_ == "VOID")
