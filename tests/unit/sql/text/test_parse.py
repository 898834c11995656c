"""Scripts are cut at the right semicolons; what does not parse says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from anabranch.errors import SqlSyntaxError, Unsupported
from anabranch.sql.statements.read import parse_statement
from anabranch.sql.text.parse import Passage, parse_expression, parse_query, split
from anabranch.sql.text.tokens import Place, place, string_value, tokenize


def texts(script: str) -> list[str]:
    return [piece.text for piece in split(script)]


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        (" ;; \n; ", []),
        ("-- only a comment; here", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT 1; SELECT 2 ;", ["SELECT 1", "SELECT 2"]),
        ("SELECT 'a;b'; SELECT \"c;d\"", ["SELECT 'a;b'", 'SELECT "c;d"']),
        ("SELECT 'it''s; x'; b", ["SELECT 'it''s; x'", "b"]),
        (r"SELECT 'it\'s; x'; b", [r"SELECT 'it\'s; x'", "b"]),
        (r"SELECT r'\'; b", [r"SELECT r'\'", "b"]),
        ("SELECT `a;b``;c`; d", ["SELECT `a;b``;c`", "d"]),
        ("a -- x; y\n; b", ["a", "b"]),
        ("a /* x; /* y; */ z; */ ; b", ["a", "b"]),
        ("a -- it's\r\n; b", ["a", "b"]),
        ("SHOW TABLES LIKE 'a;b'; c", ["SHOW TABLES LIKE 'a;b'", "c"]),
        ("é; ü", ["é", "ü"]),
    ],
)
def test_split(script: str, statements: list[str]) -> None:
    assert texts(script) == statements


def test_pieces_know_their_place() -> None:
    first, second = split("SELECT 1;\r\n\r\n  SELECT 2;")
    assert first.at == Place(1, 1)
    assert second.at == Place(3, 3)
    assert second.start == 15


@pytest.mark.parametrize(
    ("script", "what", "line", "column"),
    [
        ("SELECT 'abc", "string is not closed", 1, 8),
        ("SELECT 1;\nSELECT `abc", "quoted name is not closed", 2, 8),
        ("SELECT 1 /* /* */", "comment is not closed", 1, 10),
    ],
)
def test_split_refuses_what_is_left_open(script: str, what: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=what) as error:
        split(script)
    assert (error.value.line, error.value.column) == (line, column)


@given(st.text(alphabet="a';`\"-/*\\\n ré", max_size=30))
def test_split_keeps_every_character_that_means_something(script: str) -> None:
    try:
        pieces = split(script)
    except SqlSyntaxError:
        return
    for piece in pieces:
        assert script[piece.start : piece.end] == piece.text
        assert [t.text for t in piece.tokens()] == [t.text for t in tokenize(piece.text)]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'a'", "a"),
        ("'it''s'", "it's"),
        ("'\"\"'", '""'),
        (r"'it\'s'", "it's"),
        (r"'a\nb\tc\\d'", "a\nb\tc\\d"),
        (r"'10\%\_'", r"10\%\_"),
        (r"'\u00e9\U0001F600\101'", "é😀A"),
        (r"r'a\n'", r"a\n"),
        (r"'\ud83e\udd86'", "🦆"),
        (r"'\U0000d83e\udd86 \U0010ffff'", "🦆 \U0010ffff"),
        (r"r'\ud800 \U11ffffff'", r"\ud800 \U11ffffff"),
        ('"x"', "x"),
    ],
)
def test_string_value(literal: str, value: str) -> None:
    assert string_value(literal) == value


@pytest.mark.parametrize(
    ("escape", "says"),
    [
        (r"\U11ffffff", r"\\U11ffffff is no character"),
        (r"\UFFFFFFFF", r"\\UFFFFFFFF is no character"),
        (r"\ud800", r"\\ud800 is half"),
        (r"\U0000dfff", r"\\udfff is half"),
        (r"\udd86\ud83e", r"\\udd86 is half"),
        (r"\ud83e-\udd86", r"\\ud83e is half"),
    ],
)
def test_an_escape_that_stands_for_no_character(escape: str, says: str) -> None:
    """Whatever the literal stands in: comments, patterns, arguments of procedures, queries."""
    with pytest.raises(SqlSyntaxError, match=says):
        string_value(f"'a{escape}'")
    for text in (
        f"COMMENT ON TABLE s.t IS 'é{escape}'",
        f"SHOW TABLES LIKE 'é{escape}'",
        f"CREATE TABLE s.t (k INT COMMENT 'é{escape}')",
        f"CALL system.backup('é{escape}')",
        f"SELECT 1\n AS a, 'é{escape}' AS b",
        f"CREATE STREAM TABLE s.d AS SELECT 'é{escape}' AS a FROM s.t",
    ):
        with pytest.raises(SqlSyntaxError, match=says) as caught:
            parse_statement(text)
        line = text.splitlines()[caught.value.line - 1]  # type: ignore[operator]
        assert line[caught.value.column - 1 :].startswith("'é")  # type: ignore[operator]
        assert "takes a backslash as it stands" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "select a from t",
        "(SELECT 1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "VALUES (1, 'x'), (2, 'y')",
        "FROM t SELECT a",
        "SELECT 1 UNION ALL SELECT 2",
        "-- c\nSELECT /* d */ 1 -- e",
        "SELECT a <=> b, x -> x FROM t",
    ],
)
def test_parse_query(query: str) -> None:
    assert isinstance(parse_query(query), exp.Query)


@pytest.mark.parametrize(
    ("query", "message", "line", "column"),
    [
        ("SELECT a FROM", "expected a table name, found end of text", 1, 14),
        ("SELECT a\r\nFROM t\r\nWHERE", "unexpected end of text", 3, 6),
        ("SELECT 1 1", 'unexpected "1"', 1, 10),
        ("SELECT (a\nFROM t", '"(" is not closed', 1, 8),
        ("SELECT a FROM t)", 'unexpected ")"', 1, 16),
        ("SELECT cast(a) FROM t", "expected AS after CAST", 1, 14),
        ("WITH a AS SELECT 1 SELECT 2", 'expected "(", found "SELECT"', 1, 11),
        ("SELECT 'é\nx' 3 4", 'unexpected "3"', 2, 4),
        ("SELECT a FROM t ORDER BY", "unexpected end of text", 1, 25),
        ("SELECT 1; SELECT 2", 'unexpected ";"', 1, 9),
        ("DROP TABLE t", 'expected a query, found "DROP"', 1, 1),
        ("", "expected a query, found end of text", 1, 1),
    ],
)
def test_query_errors(query: str, message: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as error:
        parse_query(query)
    assert str(error.value).startswith(f"{message} (line {line}, column {column})")
    assert "\x1b" not in str(error.value)
    assert "keyword" not in str(error.value)


def test_errors_show_the_line_with_a_caret() -> None:
    with pytest.raises(SqlSyntaxError) as error:
        parse_query("SELECT a\nFROM t WEHRE x = 1")
    assert str(error.value) == (
        'unexpected "x" (line 2, column 14)\n'
        "  FROM t WEHRE x = 1\n"
        "               ^\n"
        'hint: did you mean "WHERE"?'
    )


def test_places_count_in_the_whole_text() -> None:
    _, second = split("SELECT 1;\n\n  SELECT 1 1")
    with pytest.raises(SqlSyntaxError) as error:
        parse_query(second)
    assert (error.value.line, error.value.column) == (3, 12)


def test_insert_behind_with_is_not_a_query() -> None:
    with pytest.raises(Unsupported, match="found INSERT"):
        parse_query("WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q")


@pytest.mark.parametrize(
    "expression",
    ["a = 1", "comment = 'x'", "set = 1", "a IN (SELECT b FROM u)", "NOT EXISTS (SELECT 1)", "end"],
)
def test_parse_expression(expression: str) -> None:
    parse_expression(expression)


@pytest.mark.parametrize("expression", ["", "a b", "a AS b", "a =", "a IN (1", "1; 2"])
def test_expression_errors(expression: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_expression(expression)


def test_commands_inside_a_query_are_refused() -> None:
    with pytest.raises((Unsupported, SqlSyntaxError)):
        parse_query("WITH a AS (WITH b AS (SELECT 1) REFRESH * FROM b) SELECT * FROM a")


def test_nonsense_is_a_syntax_error() -> None:
    with pytest.raises(SqlSyntaxError):
        parse_query("SELECT map('a' NATURAL1)['a'] FROM t")


def test_deep_nesting_is_an_error_of_ours() -> None:
    with pytest.raises((Unsupported, SqlSyntaxError)):
        parse_query("SELECT " + "(" * 5000 + "1" + ")" * 5000)


def test_long_chains_are_fine() -> None:
    parse_query("SELECT 1 WHERE " + " AND ".join(f"x{i} = {i}" for i in range(3000)))


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, Place(1, 1)), (2, Place(1, 3)), (4, Place(2, 1)), (5, Place(2, 2))],
)
def test_place_with_windows_newlines(offset: int, expected: Place) -> None:
    assert place("ab\r\ncd", offset) == expected


def test_place_shift() -> None:
    assert Place(3, 5).shift(Place(1, 4)) == Place(3, 8)
    assert Place(3, 5).shift(Place(2, 4)) == Place(4, 4)


def test_passage_of() -> None:
    passage = Passage.of("abc")
    assert Passage.of(passage) is passage
    assert passage.text == "abc"
