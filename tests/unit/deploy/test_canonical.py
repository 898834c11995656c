"""Layout, comments and case of keywords are no change; a literal or a quoted name is one."""

from __future__ import annotations

import pytest

from anabranch.deploy.canonical import (
    VERSION,
    canonical,
    canonical_query,
    hash_of,
    metadata,
    object_hash,
)
from anabranch.deploy.snapshot import IndexFact
from anabranch.sql.statements.read import parse_statement

BASE = (
    "SELECT s.region, sum(s.amount) AS total FROM shop.sales s WHERE s.kind = 'a' GROUP BY s.region"
)


def form(text: str) -> str:
    return canonical(parse_statement(text))


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace(" ", "\n\t "),
        BASE + ";",
        BASE.replace("SELECT", "select").replace("GROUP BY", "Group  By").replace("sum", "SUM"),
        "-- revenue\n" + BASE.replace("FROM", "/* of /* all */ regions */ FROM -- here\n"),
        BASE.replace("shop.sales s", "Shop.SALES S"),
        BASE.replace("'a'", '"a"'),
        BASE.replace("GROUP BY s.region", "GROUP BY S.REGION"),
        BASE.replace("s.kind =", "S.Kind="),
    ],
)
def test_the_same_meaning_has_one_form(text: str) -> None:
    assert canonical_query(text) == canonical_query(BASE)


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("'a'", "'A'"),
        BASE.replace("'a'", "'a '"),
        BASE.replace("AS total", "AS Total"),
        BASE.replace("s.region,", "s.Region,"),
        BASE.replace("AS total", "AS `total `"),
        BASE.replace("sum", "avg"),
        BASE.replace("shop.sales", "shop.`sales 2`"),
        BASE.replace("GROUP BY", "AND 1 = 1 GROUP BY"),
        BASE.replace("SELECT", "SELECT DISTINCT"),
    ],
)
def test_another_meaning_has_another_form(text: str) -> None:
    assert canonical_query(text) != canonical_query(BASE)


def test_names_in_quotes_keep_their_case() -> None:
    assert canonical_query("SELECT 1 FROM `T`") != canonical_query("SELECT 1 FROM `t`")
    assert canonical_query("SELECT 1 FROM t WHERE `A` = 1") != canonical_query(
        "SELECT 1 FROM t WHERE `a` = 1"
    )


def test_an_inner_select_list_keeps_the_case_that_a_star_shows() -> None:
    one = canonical_query("SELECT * FROM (SELECT Region FROM t)")
    assert one != canonical_query("SELECT * FROM (SELECT region FROM t)")


def test_values_and_empty_texts() -> None:
    assert canonical_query("values (1, 'x') ;") == canonical_query("VALUES (1,'x')")
    assert canonical_query("VALUES (1)") != canonical_query("VALUES (2)")
    assert canonical_query(" -- nothing\n") == ""


def test_the_form_of_a_statement_leaves_out_its_name_and_what_changes_no_row() -> None:
    plain = form(f"CREATE STREAM TABLE a AS {BASE}")
    assert form(f"CREATE OR REPLACE STREAM TABLE b.c SCHEDULE '5s' WITH (x = 1) AS {BASE}") == plain
    assert form(f"CREATE STREAM TABLE a IN CLUSTER c AS {BASE}") != plain
    assert form(f"CREATE VIEW a AS {BASE}") != plain
    assert form(f"CREATE VIEW a (x, y) AS {BASE}") != form(f"CREATE VIEW a (x, z) AS {BASE}")


def test_the_form_of_a_table_is_its_columns() -> None:
    plain = form("CREATE TABLE t (id BIGINT, v STRING)")
    assert form("create table u ( id bigint,\n v string COMMENT 'text' ) COMMENT 'all'") == plain
    assert form("CREATE TABLE t (id BIGINT NOT NULL, v STRING)") != plain
    assert form("CREATE TABLE t (id BIGINT, V STRING)") != plain
    assert form("CREATE TABLE t (id INT, v STRING)") != plain


def test_metadata_is_the_rest() -> None:
    made = parse_statement("CREATE STREAM TABLE a SCHEDULE '5s' WITH (x = 1) AS SELECT 1 AS one")
    assert metadata(made) == 'refresh_mode = "AUTO"\nschedule = "5s"\nx = "1"'
    by_hand = parse_statement("CREATE STREAM TABLE a SCHEDULE NONE AS SELECT 1 AS one")
    assert "schedule = null" in metadata(by_hand)
    table = parse_statement("CREATE TABLE t (id BIGINT COMMENT 'key') COMMENT 'all'")
    assert metadata(table) == 'comment = "all"\ncomment of id = "key"'


def test_what_creates_no_object_has_no_form() -> None:
    with pytest.raises(TypeError):
        form("SELECT 1")


def test_hashes_carry_their_version_and_their_parts() -> None:
    assert hash_of("x").startswith(f"v{VERSION}:")
    assert hash_of("ab", "c") != hash_of("a", "bc")
    one, two = IndexFact("i", "c", "(a)"), IndexFact("j", None, "(b)")
    assert object_hash("x", [one, two]) == object_hash("x", [two, one])
    assert object_hash("x", [one]) != object_hash("x")
    assert object_hash("x", [one]) != object_hash("x", [IndexFact("i", "d", "(a)")])
