"""Settings: one table, five layers, errors that name the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import InvalidValue, UnknownName, Unreachable
from anabranch.settings import TABLE, Settings, environment


@pytest.fixture(autouse=True)
def empty_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a settings file, and no variables of ours."""
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.catalog == f"sqlite:///{tmp_path}/.anabranch/catalog.db"
    assert settings.warehouse == f"{tmp_path}/.anabranch/warehouse"
    assert settings.spark_master == "local[*]"
    assert settings.spark_remote == ""
    assert settings.tick_interval == 1.0
    assert settings.history_retention == 30 * 86400
    assert settings.snapshot_retention == 7 * 86400
    assert settings.tick_watermark_enabled is True
    assert settings.allow_circular is False
    assert settings.small_table_rows == 100_000
    assert settings.parallelism >= 1


def test_every_default_and_example_is_a_valid_value() -> None:
    for setting in TABLE.values():
        setting.read(setting.kind.example)
        assert setting.name.islower()
        assert setting.meaning.endswith(".")
    for key, value in Settings().items():
        assert Settings()[key] == value


@pytest.mark.parametrize("form", [str, Path])
def test_a_folder(tmp_path: Path, form: type) -> None:
    settings = Settings.load(form(tmp_path / "my shop"))
    assert settings.home == f"{tmp_path}/my shop"
    assert settings.catalog == f"sqlite:///{tmp_path}/my shop/catalog.db"
    assert settings.warehouse == f"{tmp_path}/my shop/warehouse"


def test_a_sqlite_url_keeps_its_warehouse_beside_it(tmp_path: Path) -> None:
    settings = Settings.load("sqlite:///data/world.db")
    assert settings.catalog == f"sqlite:///{tmp_path}/data/world.db"
    assert settings.warehouse == f"{tmp_path}/data/warehouse"


def test_postgres_needs_a_warehouse() -> None:
    with pytest.raises(InvalidValue, match="needs the setting warehouse"):
        Settings.load("postgresql://me@host/db")
    settings = Settings.load("postgresql://me@host/db", warehouse="s3://bucket/w")
    assert (settings.catalog, settings.warehouse) == ("postgresql://me@host/db", "s3://bucket/w")


def test_postgres_takes_the_warehouse_of_any_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "anabranch.toml").write_text('warehouse = "files"')
    assert Settings.load("postgresql://h/db").warehouse == f"{tmp_path}/files"
    monkeypatch.setenv("ANABRANCH_WAREHOUSE", "/nearer")
    assert Settings.load("postgresql://h/db").warehouse == "/nearer"


def test_other_databases_are_refused() -> None:
    with pytest.raises(InvalidValue, match="mysql"):
        Settings.load("mysql://host/db")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(InvalidValue, match="sqlite:///catalog.db"):
        Settings.load("catalog.db")


@pytest.mark.parametrize("place", [3, "", b"x", ["x"]])
def test_a_place_that_is_none(place: object) -> None:
    with pytest.raises(InvalidValue, match="not a place to connect to"):
        Settings.load(place)


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anabranch.toml").write_text("parallelism = 2\nmax_consecutive_errors = 7\n")
    assert Settings.load().parallelism == 2
    monkeypatch.setenv("ANABRANCH_PARALLELISM", "3")
    assert Settings.load().parallelism == 3
    settings = Settings.load(parallelism=4)
    assert settings.parallelism == 4
    assert settings.with_("anabranch.parallelism", "5").parallelism == 5
    assert settings.parallelism == 4
    assert settings.max_consecutive_errors == 7


def test_origins_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anabranch.toml").write_text('history_retention = "90m"\n')
    monkeypatch.setenv("ANABRANCH_ALLOW_CIRCULAR", "yes")
    settings = Settings.load(verbose=True).with_("parallelism", 2)
    rows = {row["name"]: (row["value"], row["origin"]) for row in settings.rows()}
    assert rows["history_retention"] == ("1h30m", "file")
    assert rows["allow_circular"] == ("true", "environment")
    assert rows["verbose"] == ("true", "argument")
    assert rows["parallelism"] == ("2", "SET")
    assert rows["tick_interval"] == ("1s", "default")


def test_passwords_are_not_listed() -> None:
    settings = Settings.load("postgresql://me:secret@host/db", warehouse="/w")
    assert "secret" not in str(settings.rows())
    assert "secret" in settings.catalog


def test_the_file_is_found_upwards_and_its_folders_start_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "anabranch.toml").write_text('home = "store"\n[spark]\nmaster = "local[1]"\n')
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    settings = Settings.load()
    assert settings.home == f"{tmp_path}/store"
    assert settings.spark_master == "local[1]"


def test_a_file_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('catalog = "sqlite:///c.db"\nparallelism = 9\n')
    settings = Settings.load("other.toml")
    assert (settings.parallelism, settings.catalog) == (9, f"sqlite:///{tmp_path}/c.db")
    with pytest.raises(InvalidValue, match="cannot read settings"):
        Settings.load("missing.toml")


def test_a_nearer_home_hides_a_farther_catalog(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text(
        'catalog = "postgresql://h/db"\nwarehouse = "/far"\nparallelism = 2\n'
    )
    settings = Settings.load("here")
    assert settings.catalog == f"sqlite:///{tmp_path}/here/catalog.db"
    assert settings.warehouse == f"{tmp_path}/here/warehouse"
    assert settings.parallelism == 2


def test_spark_properties_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anabranch.toml").write_text(
        '[spark.conf]\n"spark.a" = 1\nspark.nested.b = true\n"spark.c" = "file"\n'
    )
    monkeypatch.setenv("ANABRANCH_TRUST", str(tmp_path))
    monkeypatch.setenv("ANABRANCH_SPARK_CONF", "spark.c=environment; spark.d=x=y;")
    settings = Settings.load({"spark.conf.spark.e": 5, "spark": {"conf": {"spark.f": False}}})
    assert settings.spark_conf == {
        "spark.a": "1",
        "spark.nested.b": "true",
        "spark.c": "environment",
        "spark.d": "x=y",
        "spark.e": "5",
        "spark.f": "false",
    }
    assert settings["spark.conf.spark.d"] == "x=y"
    assert settings.get("spark.conf.spark.zzz") is None
    assert "spark.conf.spark.e" in list(settings)
    assert len(dict(settings)) == len(settings)


def test_unknown_settings_offer_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match='did you mean "parallelism"'):
        Settings.load(paralellism=2)
    with pytest.raises(UnknownName, match='did you mean "spark.master"'):
        Settings.load({"spark.mastr": "local"})
    (tmp_path / "anabranch.toml").write_text("tick_intervall = '2s'")
    with pytest.raises(UnknownName, match=r"anabranch\.toml: there is no setting 'tick_intervall'"):
        Settings.load()


def test_variables_that_are_not_ours_are_left_alone() -> None:
    assert environment({"ANABRANCH_PORT": "tcp://10.0.0.1:80", "PATH": "/bin"}) == {}
    with pytest.raises(UnknownName, match='did you mean "ANABRANCH_TICK_INTERVAL"'):
        environment({"ANABRANCH_TICK_INTERVALL": "2s"})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("parallelism", "many", "setting parallelism: 'many' is not a whole number"),
        ("parallelism", 0, "less than 1"),
        ("parallelism", 2.5, "not a whole number"),
        ("full_refresh_threshold", "2", "not between 0 and 1"),
        ("full_refresh_threshold", "nan", "not between 0 and 1"),
        ("allow_circular", "perhaps", "neither true nor false"),
        ("tick_interval", "0s", "longer than 0"),
        ("tick_interval", "5", "hint: a valid value is 1s"),
        ("history_retention", "a week", "not a duration"),
        ("diamond_consistency", "eventual", "not one of atomic, none"),
        ("home", "", "not a text"),
        ("spark.conf", "x", "name=value"),
    ],
)
def test_bad_values_name_the_setting_and_a_valid_example(
    name: str, value: object, says: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        Settings.load({name: value})
    assert says in str(caught.value)
    assert name in str(caught.value)
    assert "a valid value is" in str(caught.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text("parallelism =")
    with pytest.raises(InvalidValue, match=r"anabranch\.toml: not a valid TOML file"):
        Settings.load()


def test_set_cannot_move_the_catalog() -> None:
    for name in ("catalog", "warehouse", "spark.master", "spark.conf.spark.x"):
        with pytest.raises(InvalidValue, match="cannot be changed once connected"):
            Settings.load().with_(name, "postgresql://h/db")


def test_names_in_any_case_and_with_prefix() -> None:
    settings = Settings.load().with_("ANABRANCH.Tick_Interval".replace("ANABRANCH", "anabranch"), 2)
    assert settings.tick_interval == 2.0


def test_the_home_is_made_only_when_the_catalog_is_there(tmp_path: Path) -> None:
    Settings.load("a/b").create_home()
    assert (tmp_path / "a" / "b").is_dir()
    Settings.load("postgresql://h/db", warehouse="/w").create_home()
    assert not (tmp_path / ".anabranch").exists()
    (tmp_path / "file").touch()
    with pytest.raises(Unreachable, match="cannot be made"):
        Settings.load("file/below").create_home()


PROFILES = """
parallelism = 2
snapshot_retention = "1d"

[variables]
anything = 1

[profiles.dev]
parallelism = 3

[profiles.prod]
parallelism = 4
home = "there"

[profiles.prod.variables]
anything = 2
"""


def test_a_profile_stands_between_environment_and_file(
    empty_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty_world / "anabranch.toml").write_text(PROFILES)
    assert Settings.load().parallelism == 3
    assert Settings.load().origins["parallelism"] == "profile"
    settings = Settings.load(profile="prod")
    assert (settings.parallelism, settings.snapshot_retention) == (4, 86400)
    assert settings.home == f"{empty_world}/there"
    monkeypatch.setenv("ANABRANCH_PROFILE", "prod")
    monkeypatch.setenv("ANABRANCH_PARALLELISM", "9")
    settings = Settings.load()
    assert (settings.profile, settings.parallelism) == ("prod", 9)
    assert Settings.load(profile="none of them").parallelism == 9


def test_a_profile_has_settings_like_the_file(empty_world: Path) -> None:
    (empty_world / "anabranch.toml").write_text("[profiles.dev]\nparallelsm = 3")
    with pytest.raises(UnknownName, match='did you mean "parallelism"'):
        Settings.load()


@pytest.mark.parametrize("named", ["argument", "home", "catalog", "warehouse", "file"])
def test_a_home_folder_that_does_not_exist(named: str, tmp_path: Path) -> None:
    place = "~nobody-at-all/x"
    if named == "file":
        (tmp_path / "anabranch.toml").write_text(f"home = {place!r}\n")
    given = {"argument": place, "file": None}.get(named, {named: place})
    with pytest.raises(InvalidValue, match=r"no home folder for ~nobody-at-all[\s\S]*full path"):
        Settings.load(given)
