"""Rules are read from text, and wrong ones are refused."""

from __future__ import annotations

import pytest

from anabranch.datalog.rule import Atom, Rule
from anabranch.errors import InvalidValue


def test_a_rule_is_read_and_printed() -> None:
    rule = Rule.parse("Path(X, Z) :- Edge(X, Y),Path( Y , Z )")
    assert rule.head == Atom("Path", ("X", "Z"))
    assert rule.body == (Atom("Edge", ("X", "Y")), Atom("Path", ("Y", "Z")))
    assert Rule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "Path(X)",
        "Path(X) :-",
        "Path(X) :- Edge(X,)",
        "Path(X) :- Edge(X),",
        "Path(X) :- Edge(X) Edge(X)",
        "Path(X), Path(Y) :- Edge(X, Y)",
        "Path(X) :- Edge(X, 'a')",
        "Path(X) :- Edge(Y)",
        "Path(_) :- Edge(_)",
    ],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Rule.parse(text)
