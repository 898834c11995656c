"""The commands of deployments: the id alone on stdout, JSON everywhere, dry runs that do nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

import anabranch
from anabranch import Anabranch
from anabranch.catalog import tables
from anabranch.cli.main import run
from anabranch.cli.session import CliSession
from anabranch.project import load
from anabranch.settings import TABLE, Settings
from tests.contract.deploying import without_spark

Capture = pytest.CaptureFixture[str]
FILES = {
    "anabranch.toml": 'name = "shop"',
    "models/db/raw/sales.sql": "CREATE TABLE sales (id BIGINT, region STRING)",
    "models/db/mart/first.sql": "CREATE STREAM TABLE first AS SELECT id, region FROM raw.sales",
    "models/db/mart/second.sql": "CREATE STREAM TABLE second AS SELECT id, region FROM first",
    "models/db/top/last.sql": "CREATE STREAM TABLE last AS SELECT id, region FROM mart.second",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in the current folder with a catalog of its own; Spark never starts."""
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANABRANCH_TRUST", str(tmp_path))  # other repositories name its catalog
    without_spark(monkeypatch.setattr)

    def connect(session: CliSession, settings: Settings) -> Anabranch:
        settings.create_home()
        return anabranch.connect(settings)

    monkeypatch.setattr(CliSession, "connect", connect)
    (tmp_path / ".anabranch").mkdir()
    yield tmp_path


def said(capsys: Capture, *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code, capsys.readouterr()
    return capsys.readouterr().out


def data(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    return json.loads(said(capsys, *arguments, "--json", code=code))


def edit(folder: Path, name: str, old: str, new: str) -> None:
    place = folder / "models/db" / name
    place.write_text(place.read_text().replace(old, new))


def test_from_plan_to_roll_back(folder: Path, capsys: Capture) -> None:
    assert "build    db.mart.first" in said(capsys, "plan")
    made = said(capsys, "stage").strip()
    assert len(made) == 8  # a shell can catch it
    assert data(capsys, "wait", made)["ready"]
    assert said(capsys, "promote", made).startswith(f"promoted {made} as cut ")
    assert said(capsys, "plan") == "nothing to deploy: the project is what is deployed\n"
    edit(folder, "mart/second.sql", "SELECT id", "SELECT id + 1 AS id")
    text = said(capsys, "plan")
    assert "~ db.mart.second was modified" in text
    assert "+CREATE STREAM TABLE second AS SELECT id + 1 AS id, region FROM first" in text
    assert "db.mart.first  db.mart.first is in schema db.mart, which is dirty" in text
    second = data(capsys, "stage")["id"]
    assert data(capsys, "promote")["id"] == second
    assert data(capsys, "rollback")["status"] == "ROLLED_BACK"
    listed = data(capsys, "deployments")
    assert [each["status"] for each in listed] == ["ROLLED_BACK", "PROMOTED"]
    assert second in said(capsys, "deployments")


def test_formatting_alone_is_nothing_to_deploy(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    for name in FILES:
        if name.endswith(("first.sql", "sales.sql")):
            text = FILES[name].lower().replace(" ", "\n  ")
            (folder / name).write_text(f"-- the same\n{text} ;\n")
    assert data(capsys, "plan")["empty"]
    assert run(["stage"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "nothing to deploy" in err


def test_why_what_if_and_select(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "mart/first.sql", "SELECT id", "SELECT id * 2 AS id")
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    assert data(capsys, "plan", "--why", "last")["why"][-1] == "db.top.last was modified"
    assert said(capsys, "plan", "--why", "second").splitlines() == [
        "db.mart.first was modified",
        "db.mart.second reads db.mart.first, which is dirty",
    ]
    steps = data(capsys, "plan", "--select", "top.last")["steps"]
    assert {step["object"] for step in steps} == {"db.top.last"}
    steps = data(capsys, "plan", "--what-if", "second")["steps"]
    assert {step["object"] for step in steps if step["action"] == "build"} == {
        "db.mart.second",
        "db.top.last",
    }
    assert run(["plan", "--why", "sales"]) == 1
    assert "is not dirty" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["promote", "abort"])
def test_dry_runs_do_nothing(folder: Path, capsys: Capture, verb: str) -> None:
    plan = data(capsys, "stage", "--dry-run")
    assert plan["steps"] and data(capsys, "deployments") == []
    made = said(capsys, "stage").strip()
    before = data(capsys, "deployments")
    tried = data(capsys, verb, made, "--dry-run")
    assert tried["id"] == made and len(tried["steps"]) == 4
    assert "nothing was done" in said(capsys, verb, made, "--dry-run")
    assert data(capsys, "deployments") == before
    assert data(capsys, verb, made)["id"] == made


def test_a_roll_back_can_be_tried(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    made = said(capsys, "stage").strip()
    said(capsys, "promote", made)
    tried = data(capsys, "rollback", "--dry-run")
    assert tried["steps"] == [{"action": "restore", "object": "db.top.last"}]
    assert data(capsys, "deployments")[0]["status"] == "PROMOTED"


def test_errors_name_the_next_command(folder: Path, capsys: Capture) -> None:
    assert run(["promote"]) == 2
    assert "hint: `anabranch stage` builds one" in capsys.readouterr().err
    assert run(["wait"]) == 1
    assert "`anabranch stage`" in capsys.readouterr().err
    assert run(["abort", "12345678"]) == 1
    assert "`anabranch deployments` lists them" in capsys.readouterr().err
    made = said(capsys, "stage").strip()
    said(capsys, "promote", made)
    assert run(["abort", made]) == 2
    assert f"hint: `anabranch rollback {made}` takes it back" in capsys.readouterr().err


def test_two_staged_deployments_must_be_told_apart(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    edit(folder, "top/last.sql", "SELECT id", "SELECT id * 3 AS id")
    one = said(capsys, "stage").strip()
    edit(folder, "top/last.sql", "id * 3", "id * 4")
    two = said(capsys, "stage").strip()
    assert one != two
    assert run(["promote"]) == 2
    assert "2 deployments are staged" in capsys.readouterr().err
    said(capsys, "promote", one)
    assert run(["promote", two]) == 2
    error = capsys.readouterr().err
    assert f"moved since {two} was staged" in error and f"deployed {one}" in error


def test_a_deleted_source_table_needs_a_flag(folder: Path, capsys: Capture) -> None:
    said(capsys, "promote", said(capsys, "stage").strip())
    for name in ("raw/sales.sql", "mart/first.sql"):
        (folder / "models/db" / name).unlink()
    edit(folder, "mart/second.sql", "SELECT id, region FROM first", "SELECT 1 AS id, 'x' AS region")
    assert run(["stage"]) == 2
    assert "--drop-tables" in capsys.readouterr().err
    assert data(capsys, "deployments")[0]["status"] == "PROMOTED"
    made = said(capsys, "stage", "--drop-tables").strip()
    said(capsys, "promote", made)
    assert data(capsys, "plan")["empty"]


def test_a_mistake_in_the_project_is_shown(folder: Path, capsys: Capture) -> None:
    edit(folder, "mart/second.sql", "FROM first", "FROM frist")
    assert run(["stage"]) == 1
    assert 'did you mean "first"' in capsys.readouterr().err


# -- whose objects are whose -------------------------------------------------------------------------


def other_repository(folder: Path, toml: str, files: dict[str, str]) -> str:
    """Another repository, checked out under the same name, on the same catalog."""
    place = folder / "elsewhere" / folder.name
    home = f'home = "{folder / ".anabranch"}"'
    for name, text in {"anabranch.toml": f"{toml}\n{home}", **files}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return str(place)


def deployed(capsys: Capture, *where: str) -> None:
    said(capsys, "promote", said(capsys, "stage", *where).strip())


def as_before_names(folder: Path, former: str) -> None:
    """The catalog as an older version left it: objects are recorded under a folder's name."""
    with anabranch.connect(folder / ".anabranch") as ab, ab._store.writing() as c:
        c.execute(update(tables.deployed).values(project=former, named=None))
        c.execute(update(tables.deployments).values(project=former))


def test_a_project_needs_a_name_to_be_deployed(folder: Path, capsys: Capture) -> None:
    (folder / "anabranch.toml").write_text("")
    for verb in (["plan"], ["stage"], ["claim", "x"]):
        assert run(verb) == 1
        error = capsys.readouterr().err
        assert "does not name the project" in error and 'name = "' in error
    assert run(["compile"]) == 0
    assert run(["plan", "--what-if", "first"]) == 0
    for wrong in ('name = "a b"', "name = 1", 'name = ""'):
        (folder / "anabranch.toml").write_text(wrong)
        capsys.readouterr()
        assert run(["plan"]) == 1
        assert "cannot be the name of a project" in capsys.readouterr().err
    (folder / "anabranch.toml").write_text('[profiles.dev]\nname = "x"')
    assert run(["plan"]) == 1
    assert "there is no setting 'name'" in capsys.readouterr().err


def test_init_names_the_project(tmp_path: Path, capsys: Capture) -> None:
    assert run(["init", str(tmp_path / "my shop")]) == 0
    name = load(tmp_path / "my shop").name
    assert name is not None and name.startswith("my_shop-")


def test_two_repositories_of_one_folder_name_are_two_projects(
    folder: Path, capsys: Capture
) -> None:
    """They were initialised apart and share one object: neither drops or replaces the other's."""
    sales = FILES["models/db/raw/sales.sql"]
    shared = {"models/db/raw/sales.sql": sales}
    first = {"models/db/a/t.sql": "CREATE STREAM TABLE t AS SELECT id FROM raw.sales"}
    second = {"models/db/b/u.sql": "CREATE STREAM TABLE u AS SELECT id FROM raw.sales"}
    places = []
    for parent, files in (("one", shared | first), ("two", shared | second)):
        place = folder / parent / "shop"
        assert run(["--home", str(folder / ".anabranch"), "init", "--bare", str(place)]) == 0
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        places.append(str(place))
    capsys.readouterr()
    deployed(capsys, "--project", places[0])
    steps = data(capsys, "plan", "--project", places[1])["steps"]
    assert {step["object"] for step in steps} == {"db.b.u"}
    deployed(capsys, "--project", places[1])
    for place in places:
        assert data(capsys, "plan", "--project", place)["empty"]
    (Path(places[1]) / "models/db/a").mkdir()
    (Path(places[1]) / "models/db/a/t.sql").write_text(first["models/db/a/t.sql"])
    assert run(["plan", "--project", places[1]]) == 2
    assert "db.a.t belongs to project shop-" in capsys.readouterr().err


def test_another_repository_of_the_same_folder_name_drops_nothing(
    folder: Path, capsys: Capture
) -> None:
    deployed(capsys)
    files = {
        "models/db/raw/orders.sql": "CREATE TABLE orders (id BIGINT, region STRING)",
        "models/db/mart/orders.sql": "CREATE STREAM TABLE orders AS SELECT id FROM raw.orders",
    }
    other = other_repository(folder, 'name = "crm"', files)
    plan = data(capsys, "plan", "--project", other)
    assert {step["action"] for step in plan["steps"]} == {"build", "swap"}
    assert {step["object"] for step in plan["steps"]} == {"db.raw.orders", "db.mart.orders"}
    deployed(capsys, "--project", other)
    assert data(capsys, "plan")["empty"] and data(capsys, "plan", "--project", other)["empty"]
    assert [each["project"] for each in data(capsys, "deployments")] == ["crm", "shop"]


def test_what_another_project_owns_is_never_overwritten(folder: Path, capsys: Capture) -> None:
    deployed(capsys)
    first = "models/db/mart/first.sql"
    sales = {"models/db/raw/sales.sql": FILES["models/db/raw/sales.sql"]}
    other = other_repository(folder, 'name = "crm"', {**sales, first: FILES[first]})
    for verb in ("plan", "stage"):
        assert run([verb, "--project", other]) == 2
        error = capsys.readouterr().err
        assert "db.mart.first belongs to project shop" in error
        assert "--drop-tables" not in error
    assert run(["stage", "--drop-tables", "--project", other]) == 2
    wider = sales["models/db/raw/sales.sql"].replace(")", ", more STRING)")
    other = other_repository(folder, 'name = "crm"', {"models/db/raw/sales.sql": wider})
    (Path(other) / first).unlink()
    capsys.readouterr()
    assert run(["plan", "--project", other]) == 2
    assert "db.raw.sales belongs to project shop" in capsys.readouterr().err


def test_a_table_of_another_project_can_be_read(folder: Path, capsys: Capture) -> None:
    deployed(capsys)
    files = {
        "models/db/mart/first.sql": "CREATE TABLE first (id BIGINT, region STRING)",
        "models/db/crm/mine.sql": "CREATE STREAM TABLE mine AS SELECT id, region FROM mart.first",
    }
    other = other_repository(folder, 'name = "crm"', files)
    deployed(capsys, "--project", other)
    assert data(capsys, "plan", "--project", other)["empty"] and data(capsys, "plan")["empty"]
    (Path(other) / "models/db/mart/first.sql").unlink()
    (Path(other) / "models/db/crm/mine.sql").write_text("CREATE STREAM TABLE mine AS SELECT 1 AS x")
    steps = data(capsys, "plan", "--project", other)["steps"]
    assert {step["object"] for step in steps} == {"db.crm.mine"}


def test_what_was_deployed_before_names_is_claimed(folder: Path, capsys: Capture) -> None:
    deployed(capsys)
    as_before_names(folder, "old_folder")
    assert run(["plan"]) == 2
    error = capsys.readouterr().err
    assert "was deployed from a folder old_folder" in error
    assert "anabranch claim old_folder" in error
    claimed = data(capsys, "claim", "old_folder", "--dry-run")
    assert claimed["objects"] == ["db.mart.first", "db.mart.second", "db.raw.sales", "db.top.last"]
    assert run(["plan"]) == 2, "a dry run does nothing"
    assert data(capsys, "claim", "old_folder") == claimed
    assert data(capsys, "plan")["empty"]
    capsys.readouterr()
    assert run(["claim", "old_folder"]) == 2
    assert "is left to claim" in capsys.readouterr().err


def test_before_names_nothing_is_dropped_without_a_claim(folder: Path, capsys: Capture) -> None:
    """A folder's name may be that of another repository."""
    deployed(capsys)
    as_before_names(folder, "shop")
    assert data(capsys, "plan")["empty"]
    (folder / "models/db/top/last.sql").unlink()
    assert run(["plan"]) == 2
    error = capsys.readouterr().err
    assert "db.top.last was deployed from a folder shop" in error
    assert "anabranch claim shop" in error and "--drop-tables" not in error
    data(capsys, "claim", "shop")
    actions = {step["action"] for step in data(capsys, "plan")["steps"]}
    assert "drop" in actions


def test_a_roll_back_does_not_undo_a_claim(folder: Path, capsys: Capture) -> None:
    deployed(capsys)
    edit(folder, "top/last.sql", "SELECT id", "SELECT id + 1 AS id")
    deployed(capsys)
    as_before_names(folder, "old_folder")
    data(capsys, "claim", "old_folder")
    data(capsys, "rollback")
    edit(folder, "top/last.sql", "SELECT id + 1 AS id", "SELECT id")
    assert data(capsys, "plan")["empty"]


def test_clusters_are_shared_only_while_projects_agree(folder: Path, capsys: Capture) -> None:
    (folder / "clusters").mkdir()
    (folder / "clusters/c.sql").write_text("CREATE CLUSTER c POOL 'a'")
    deployed(capsys)
    other = other_repository(
        folder,
        'name = "crm"',
        {
            "models/crm/a/b.sql": "CREATE TABLE b (id BIGINT)",
            "clusters/c.sql": "CREATE CLUSTER c POOL 'a'",
        },
    )
    assert data(capsys, "plan", "--project", other)["clusters_changed"] == []
    (Path(other) / "clusters/c.sql").write_text("CREATE CLUSTER c POOL 'b'")
    assert run(["plan", "--project", other]) == 2
    assert "cluster c belongs to project shop" in capsys.readouterr().err


# -- nothing to deploy -------------------------------------------------------------------------------


def laid_out(text: str, chance: random.Random) -> str:
    """The same statements in another layout."""
    words = text.replace(",", " , ").split()
    keywords = {"CREATE", "STREAM", "TABLE", "AS", "SELECT", "FROM", "WHERE"}
    said = [
        chance.choice([word.lower(), word, word.title()]) if word in keywords else word
        for word in words
    ]
    breaks = [" ", "\n", "\n    ", "  ", " /* so */ ", " -- why\n"]
    return "".join(word + chance.choice(breaks) for word in said) + chance.choice(["", ";", "\n;"])


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(at, marks=pytest.mark.slow) for at in range(1, 12))]
)
def test_layout_alone_is_never_deployed(folder: Path, capsys: Capture, seed: int) -> None:
    """Random edits, deployments and roll-backs: what is deployed never comes back as a change."""
    chance = random.Random(seed)
    models = [name for name in FILES if "STREAM" in FILES[name]]
    meaning = dict(FILES)  # what is in the files, but for the layout
    past: list[dict[str, str]] = []

    def lay_out() -> None:
        for name in chance.sample(models, chance.randint(1, len(models))):
            (folder / name).write_text(laid_out(meaning[name], chance))

    deployed(capsys)
    now = dict(meaning)
    for step in range(8):
        lay_out()
        assert data(capsys, "plan")["empty"], (seed, step)
        name = chance.choice(models)
        kind = chance.choice(["rows", "schedule", "back"])
        if kind == "back" and past:
            data(capsys, "rollback")
            meaning = now = past.pop()
            for each in models:
                (folder / each).write_text(laid_out(meaning[each], chance))
        else:
            head, query = meaning[name].split(" AS ", 1)
            if kind == "rows":
                query = query.replace("FROM", f", {step} AS n{step} FROM", 1)
            else:
                head = f"{head.split(' SCHEDULE')[0]} SCHEDULE '{step + 1}h'"
            meaning = {**meaning, name: f"{head} AS {query}"}
            (folder / name).write_text(laid_out(meaning[name], chance))
            lay_out()  # whatever else is in a dirty schema is kept, in its new layout
            steps = data(capsys, "plan")["steps"]
            built = {step["object"] for step in steps if step["action"] == "build"}
            after = models[models.index(name) :] if kind == "rows" else []
            assert built == {f"db.{each[10:-4].replace('/', '.')}" for each in after}
            deployed(capsys)
            past.append(now)
            now = meaning
        assert data(capsys, "plan")["empty"], (seed, step, kind)
