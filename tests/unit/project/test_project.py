"""Files to objects: the path is the name, a file holds one object and what belongs to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.snapshot import ObjectKey
from anabranch.errors import InvalidValue, NotCompiled, UnknownName, UserError
from anabranch.project import load
from tests.unit.project.folder import ORDERS, REVENUE, mistakes, project


def test_objects_are_named_by_their_paths(tmp_path: Path) -> None:
    found = project(tmp_path, orders=ORDERS, report__orders="CREATE VIEW orders AS SELECT 1 AS a")
    assert set(found.files.models) == {
        ObjectKey("shop", "sales", "orders"),
        ObjectKey("shop", "report", "orders"),
    }
    assert mistakes(found) == []


@pytest.mark.parametrize("name", ["orders", "sales.orders", "shop.sales.orders", "`orders`"])
def test_a_name_inside_may_say_as_much_as_it_likes(tmp_path: Path, name: str) -> None:
    assert mistakes(project(tmp_path, orders=f"CREATE TABLE {name} (a INT)")) == []


@pytest.mark.parametrize("name", ["order", "shop.orders", "`default`.orders", "other.sales.orders"])
def test_a_name_inside_must_agree_with_the_path(tmp_path: Path, name: str) -> None:
    (said,) = mistakes(project(tmp_path, orders=f"CREATE TABLE {name} (a INT)"))
    assert said.startswith("orders.sql:1:") and "is defined in models/shop/sales/orders.sql" in said
    assert "name it orders, or move it to models/" in said


def test_what_may_stand_beside_an_object(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        orders=ORDERS,
        revenue=f"""{REVENUE};
        CREATE INDEX by_region ON revenue (region);
        COMMENT ON STREAM TABLE revenue IS 'money';
        COMMENT ON COLUMN revenue.total IS 'in euro';
        CREATE TEST t GIVEN orders AS (SELECT 'eu' AS region) EXPECT (region) AS (VALUES ('eu'));
        """,
    )
    model = found.files.models[ObjectKey("shop", "sales", "revenue")]
    assert [each.statement.name for each in model.indexes] == ["by_region"]
    assert [each.statement.column for each in model.comments] == [None, "total"]
    assert [each.name for each in model.tests] == ["t"]
    assert mistakes(found) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{ORDERS}; CREATE TABLE b (a INT)", "1:89: a file holds one object | put it into a file"),
        (f"{ORDERS}; INSERT INTO orders VALUES (1)", "only CREATE INDEX, COMMENT and CREATE TEST"),
        (f"{ORDERS}; CREATE INDEX i ON other (a)", "this file is about shop.sales.orders, not"),
        ("CREATE TABLE orders AS SELECT 1 AS a", "source table shop.sales.orders has a query"),
        ("-- nothing", "1:1: there is no CREATE TABLE, CREATE VIEW or CREATE STREAM TABLE"),
        ("CREATE TABLE orders (a INTT)", '1:24: "INTT" is not a type | did you mean "INT"?'),
        ("CREATE TABLE orders (a INT", '1:27: expected ")", found end of text'),
        ("CREATE VIEW orders AS SELECT a FORM t", '1:37: unexpected "t" | did you mean "FROM"?'),
        ("SELECT 'a", "1:8: string is not closed"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, said: str) -> None:
    found = mistakes(project(tmp_path, orders=text))
    assert [each for each in found if said in each], found


def test_every_statement_of_a_file_is_looked_at(tmp_path: Path) -> None:
    found = project(tmp_path, orders=f"{ORDERS};\nCREATE INDEX i (a);\nCOMMENT ON x;\nCREATE TEST")
    assert [each.split(":")[1] for each in mistakes(found)] == ["2", "3", "4"]


def test_files_in_other_places(tmp_path: Path) -> None:
    found = project(tmp_path, orders=ORDERS)
    (tmp_path / "models/shop/lost.sql").write_text(ORDERS)
    (tmp_path / "models/shop/sales/.hidden.sql").write_text("nonsense")
    (tmp_path / "models/shop/sales/notes.txt").write_text("nonsense")
    (tmp_path / "models/shop/sales/latin.sql").write_bytes("CREATE VIEW é".encode("latin-1"))
    found = load(tmp_path)
    assert mistakes(found) == [
        "lost.sql:1:1: the path of a file is the name of its object | move it to "
        "models/<database>/<schema>/<object>.sql",
        "latin.sql:1:1: the file is not UTF-8 text | None",
    ]


def test_names_that_differ_only_in_case(tmp_path: Path) -> None:
    found = project(tmp_path, a=ORDERS.replace("orders", "a"), A=ORDERS.replace("orders", "A"))
    assert "shop.sales.a and shop.sales.A differ only in case" in mistakes(found)[0]


def test_a_reserved_database(tmp_path: Path) -> None:
    project(tmp_path)
    path = tmp_path / "models/system/s/t.sql"
    path.parent.mkdir(parents=True)
    path.write_text("CREATE TABLE t (a INT)")
    assert "system is reserved" in mistakes(load(tmp_path))[0]


def test_clusters(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        clusters__fast="CREATE CLUSTER fast WITH (weight = 2)",
        clusters__slow="CREATE CLUSTER slwo",
        clusters__two="CREATE CLUSTER two; CREATE CLUSTER two",
        clusters__none="",
    )
    assert list(found.files.clusters) == ["fast", "two"]
    assert mistakes(found) == [
        "none.sql:1:1: there is no CREATE CLUSTER in this file | None",
        "slow.sql:1:16: cluster slwo is defined in clusters/slow.sql | name it slow, or move it to "
        "clusters/slwo.sql",
        "two.sql:1:21: a cluster's file holds one CREATE CLUSTER | None",
    ]


def test_a_project_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    project(tmp_path, orders=ORDERS)
    assert load(tmp_path / "models" / "shop").root == tmp_path


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no anabranch.toml.*\n*hint: `anabranch init`"):
        load(tmp_path)
    (tmp_path / "anabranch.toml").write_text("")
    with pytest.raises(UserError, match="no folder models"):
        load(tmp_path)


PROFILES = """
parallelism = 4
[variables]
least = 1
[profiles.dev.variables]
regions = ["eu"]
[profiles.prod]
parallelism = 8
[profiles.prod.variables]
regions = ["eu", "us"]
least = 2
"""
FILTERED = "CREATE VIEW v AS SELECT * FROM orders WHERE region IN (:regions) AND id > :least"


@pytest.mark.parametrize(
    ("profile", "query"),
    [
        (None, "SELECT * FROM shop.sales.orders WHERE region IN ('eu') AND id > 1"),
        ("prod", "SELECT * FROM shop.sales.orders WHERE region IN ('eu', 'us') AND id > 2"),
    ],
)
def test_a_profile_gives_values(tmp_path: Path, profile: str | None, query: str) -> None:
    found = project(tmp_path, profile, PROFILES, orders=ORDERS, v=FILTERED)
    assert found.snapshot().objects[ObjectKey("shop", "sales", "v")].query == query
    assert found.settings.parallelism == (8 if profile else 4)


def test_the_profile_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANABRANCH_PROFILE", "prod")
    assert project(tmp_path, None, PROFILES, orders=ORDERS, v=FILTERED).profile.name == "prod"


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"no profile 'prd'\nhint: did you mean \"prod\""):
        project(tmp_path, "prd", PROFILES, orders=ORDERS)
    assert project(tmp_path, None, "", orders=ORDERS).profile.name is None


def test_unknown_and_unused_variables_are_mistakes(tmp_path: Path) -> None:
    toml = '[variables]\n"old" = 1\n'
    view = "CREATE VIEW v AS SELECT * FROM orders\nWHERE id > :lest AND nope = :old2"
    assert mistakes(project(tmp_path, None, toml, orders=ORDERS, v=view)) == [
        "anabranch.toml:2:2: variable old is not used | write :old where it belongs, or take it out",
        "v.sql:2:12: there is no variable lest | give it a value in [variables] or "
        "[profiles.<name>.variables]: lest = …",
        "v.sql:2:22: column nope does not exist | columns: id, region, amount, at",
        'v.sql:2:29: there is no variable old2 | did you mean "old"?',
    ]


def test_a_variable_that_is_no_value(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="not a name for a variable"):
        project(tmp_path, None, '[variables]\n"a b" = 1', orders=ORDERS)
    with pytest.raises(InvalidValue, match="is not a table"):
        project(tmp_path, None, "variables = 1", orders=ORDERS)
    with pytest.raises(InvalidValue, match=r"variable v: \[\] has no SQL literal"):
        project(tmp_path, None, "[variables]\nv = []", orders=ORDERS)


def test_mistakes_are_raised_all_at_once_with_carets(tmp_path: Path) -> None:
    found = project(tmp_path, orders=ORDERS, v="CREATE VIEW v AS\n  SELECT idd FROM ordes")
    with pytest.raises(NotCompiled) as caught:
        found.snapshot()
    assert len(caught.value.problems) == 1
    assert str(caught.value) == (
        "1 mistake in the project\n\n"
        "models/shop/sales/v.sql:2:19: there is no table shop.sales.ordes\n"
        "    SELECT idd FROM ordes\n"
        "                    ^\n"
        '  hint: did you mean "orders"?'
    )
