"""Statements that need no table: which tables are shown, and what may stand in WITH (…)."""

from __future__ import annotations

import pytest

from anabranch.errors import Unsupported
from anabranch.names import TableName
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.statements.records import ShowTables
from anabranch.tables.options import written_options
from anabranch.verbs.reading import is_shown

SALES = TableName.parse("Shop.daily_Sales")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SHOW TABLES", True),
        ("SHOW TABLES IN shop", True),
        ("SHOW TABLES IN sho", False),
        ("SHOW TABLES LIKE 'daily*'", True),
        ("SHOW TABLES IN SHOP LIKE '*sales'", True),
        ("SHOW TABLES LIKE 'sales'", False),
        ("SHOW TABLES LIKE 'x|*_sales'", True),
        ("SHOW TABLES LIKE 'daily.sales'", False),
    ],
)
def test_which_tables_are_shown(text: str, shown: bool) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, ShowTables)
    assert is_shown(SALES, statement.schema, statement.pattern) is shown


def test_options_that_have_a_clause_of_their_own() -> None:
    assert written_options({"initialize": "false"}) == {"initialize": "false"}
    with pytest.raises(Unsupported, match="REFRESH MODE"):
        written_options({"refresh_mode": "FULL"})
    with pytest.raises(Unsupported, match="known: initialize, diamond_consistency"):
        written_options({"color": "red"})
