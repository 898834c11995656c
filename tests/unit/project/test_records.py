"""An error without a place of its own is shown at what it names."""

from __future__ import annotations

import pytest

from anabranch.errors import UserError
from anabranch.project.records import SourceFile
from anabranch.project.variables import Expanded
from anabranch.sql.text.parse import split

TEXT = "-- a view\nCREATE VIEW v AS\n  SELECT my_function(id) AS total, region FROM orders"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("there is no function my_function", (3, 10)),
        ('"orders" is not a table, nor is my_function', (3, 48)),
        ("column region of a table does not exist", (3, 36)),
        ("nothing that is written there", (2, 1)),
    ],
)
def test_an_error_is_placed(message: str, place: tuple[int, int]) -> None:
    file = SourceFile("v.sql", Expanded(TEXT, TEXT))
    (passage,) = split(TEXT)
    found = file.of_error(UserError(message), passage)
    assert (found.line, found.column) == place
