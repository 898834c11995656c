"""Secrets are told by their names, followed by reference, and never shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import make_url

from anabranch import redaction
from anabranch.boundary import public
from anabranch.catalog.store import Store, parse_url
from anabranch.errors import InvalidValue, Refused, Unreachable, UserError
from anabranch.lake.archive import Archive
from anabranch.redaction import holds_secret, redacted, redacted_value
from anabranch.settings import Settings
from anabranch.sql.statements.read import parse_statement

ODD = "p@ss:w/o#r?d%&=[]x"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        (f"postgresql://me:{ODD}@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("https://ghp_abc123@host/x?a=1", "https://***@host/x?a=1"),
        ("https://ENV('T')@host/x", "https://ENV('T')@host/x"),
        ("https://host/@scope/x", "https://host/@scope/x"),
        ("postgresql://host/db?password=abc&x=1", "postgresql://host/db?password=***&x=1"),
        ("sc://host:15002/;token=abc;use_ssl=true", "sc://host:15002/;token=***;use_ssl=true"),
        ("s3://bucket/path", "s3://bucket/path"),
        ("-Dtrust.password=abc -Xmx1g", "-Dtrust.password=*** -Xmx1g"),
        ("postgresql://me:ENV('PW')@host/db", "postgresql://me:ENV('PW')@host/db"),
    ],
)
def test_addresses(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("fs.azure.account.key.x.dfs.core.windows.net", True),
        ("spark.ssl.keyStorePassword", True),
        ("my.api_key", True),
        ("spark.hadoop.fs.s3a.aws.credentials.provider", False),
        ("spark.sql.shuffle.partitions", False),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert holds_secret(name, "abc") is secret
    assert redacted_value(name, "abc") == ("***" if secret else "abc")
    assert redacted_value(name, "ENV('X')") == "ENV('X')"


def settings(**given: object) -> Settings:
    return Settings.load({"warehouse": "wh", **given})


def test_settings_show_no_secret() -> None:
    made = settings(
        catalog=f"postgresql://me:{ODD}@host/db?sslpassword=hidden1",
        **{"spark.conf": {"spark.hadoop.fs.s3a.secret.key": "hidden2", "spark.x": "seen"}},
    )
    shown = [str(made.rows()), repr(made), f"{made}"]
    for text in shown:
        assert "hidden" not in text
        assert ODD not in text
        assert "seen" in text
    assert made.spark_conf["spark.hadoop.fs.s3a.secret.key"] == "hidden2"


def test_errors_show_no_secret_that_the_process_was_given() -> None:
    settings(catalog="postgresql://me:very%20secret@host/db")
    for text in ("very%20secret", "very secret"):
        error = UserError(f"the driver said: password={text}!", hint=f"not {text}")
        assert "secret" not in f"{error} {error!r} {error.args}"


def test_a_wrong_address_is_told_without_its_password() -> None:
    with pytest.raises(InvalidValue) as error:
        settings(catalog="mysql://me:hidden@host/db")
    assert "hidden" not in str(error.value)


def test_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_PASSWORD", ODD)
    (tmp_path / "key").write_text("from-a-file\n")
    made = settings(
        catalog="postgresql://me:ENV('PG_PASSWORD')@host/db",
        **{"spark.conf": {"spark.hadoop.fs.s3a.secret.key": f"FILE('{tmp_path / 'key'}')"}},
    )
    assert make_url(made.catalog).password == ODD
    assert made.spark_conf["spark.hadoop.fs.s3a.secret.key"] == "from-a-file"
    assert ODD not in str(UserError(f"says {ODD}"))
    with pytest.raises(InvalidValue, match="there is no environment variable NOWHERE"):
        settings(catalog="postgresql://me:ENV('NOWHERE')@host/db")
    with pytest.raises(InvalidValue, match="cannot be read"):
        settings(catalog="postgresql://me:FILE('/nowhere')@host/db")


@pytest.mark.parametrize(
    "rest",
    [
        "ADDRESS 'sc://host/;token=hidden'",
        "ADDRESS 'sc://me:hidden@host'",
        "ADDRESS 'sc://host' WITH ('spark.hadoop.fs.s3a.secret.key' = 'hidden')",
    ],
)
def test_the_catalog_keeps_no_secret(rest: str) -> None:
    with pytest.raises(InvalidValue, match="the catalog keeps none") as error:
        parse_statement(f"CREATE CLUSTER c {rest}")
    assert "hidden" not in str(error.value)


def test_a_cluster_may_refer_to_one() -> None:
    made = parse_statement(
        "CREATE CLUSTER c ADDRESS 'sc://host/;token=ENV(''TOKEN'')' "
        "WITH ('spark.hadoop.fs.s3a.secret.key' = ENV('KEY'), spark.my.password = FILE('/run/pw'))"
    )
    assert made.address == "sc://host/;token=ENV('TOKEN')"  # type: ignore[union-attr]
    assert dict(made.settings) == {  # type: ignore[union-attr]
        "spark.hadoop.fs.s3a.secret.key": "ENV('KEY')",
        "spark.my.password": "FILE('/run/pw')",
    }


# -- what a file may not say -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "spark.jars",
        "spark.jars.packages",
        "spark.driver.extraJavaOptions",
        "spark.executor.extraClassPath",
        "spark.plugins",
        "spark.extraListeners",
        "spark.sql.extensions",
        "spark.sql.catalog.evil",
        "spark.submit.pyFiles",
        "spark.pyspark.python",
        "spark.executorEnv.LD_PRELOAD",
        "spark.hadoop.fs.evil.impl",
        "spark.ui.filters",
        "spark.shuffle.manager",
    ],
)
@pytest.mark.parametrize("profile", [False, True])
def test_a_file_starts_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, profile: bool
) -> None:
    table = "[profiles.dev.spark.conf]" if profile else "[spark.conf]"
    (tmp_path / "anabranch.toml").write_text(f'{table}\n"{name}" = "x"\n')
    with pytest.raises(Refused, match="may start code"):
        Settings.load()
    monkeypatch.setenv("ANABRANCH_ALLOW_EXTERNAL_CODE", "true")
    assert Settings.load().spark_conf[name] == "x"


def test_a_file_may_tune_spark(tmp_path: Path) -> None:
    tuning = ("spark.driver.memory", "spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")
    lines = "".join(f'"{name}" = "2"\n' for name in tuning)
    (tmp_path / "anabranch.toml").write_text(f"[spark.conf]\n{lines}")
    assert set(Settings.load().spark_conf) == {*tuning}


@pytest.mark.parametrize("table", ["", "[profiles.dev]\n"])
def test_only_the_operator_allows_code(tmp_path: Path, table: str) -> None:
    (tmp_path / "anabranch.toml").write_text(f"{table}allow_external_code = true\n")
    with pytest.raises(Refused, match="is for the operator to set"):
        Settings.load()
    with pytest.raises(InvalidValue, match="cannot be changed once connected"):
        Settings().with_("allow_external_code", True)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anabranch.toml").write_text("parallelism = 3\n")
    below = tmp_path / "mine"
    below.mkdir()
    monkeypatch.chdir(below)
    assert Settings.load().parallelism == 3
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    if (tmp_path / "anabranch.toml").stat().st_uid == 0:
        os.chown(tmp_path / "anabranch.toml", 4243, -1)
    with pytest.raises(Refused, match="belongs to another user"):
        Settings.load()
    assert Settings.load(tmp_path / "anabranch.toml").parallelism == 3


@pytest.mark.parametrize(
    "parameter",
    ["x-auth-hdr", "x-pat", "sig", "signature", "X-Key-Id", "x%2Dpat", " X-Pat", "x-amz-security"],
)
def test_headers_of_a_connect_server_are_secrets(parameter: str) -> None:
    for address in (
        f"sc://host/;{parameter}=hidden",
        f"sc://host/;use_ssl=true;{parameter}=hidden",
    ):
        with pytest.raises(InvalidValue, match="the catalog keeps none") as error:
            parse_statement(f"CREATE CLUSTER c ADDRESS '{address}'")
        assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    "parameter",
    [
        "use_ssl",
        "user_id",
        "user_agent",
        "session_id",
        "grpc_max_message_size",
        "grpc_keepalive_time_ms",
        "x-databricks-cluster-id",
    ],
)
def test_plain_parameters_of_a_connect_server(parameter: str) -> None:
    address = f"sc://host:15002/;{parameter}=shown"
    made = parse_statement(f"CREATE CLUSTER c ADDRESS '{address}'")
    assert made.address == address == redaction.redacted_address(address)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "address",
    [
        "sc://",
        "sc:///",
        "sc://:15002",
        "sc://h:99999",
        "sc://h:-1",
        "sc://h:0",
        "sc://h:x",
        "sc://h:1\n",
        "sc://h\x7f",
        "sc://me@h",
        "sc://a,b:1",
        "sc://h/path",
        "sc://[::1",
        "sc://h;a=b",
    ],
)
def test_addresses_that_no_server_has(address: str) -> None:
    with pytest.raises(InvalidValue, match="not the address of a Spark Connect server"):
        parse_statement(f"CREATE CLUSTER c ADDRESS '{address}'")


@pytest.mark.parametrize("address", ["sc://h", "sc://h:1/", "sc://[::1]:15002/;use_ssl=true"])
def test_addresses_of_servers(address: str) -> None:
    made = parse_statement(f"CREATE CLUSTER c ADDRESS '{address}'")
    assert made.address == address  # type: ignore[union-attr]


@pytest.mark.parametrize("setting", ["weight = 99999999999999999999", "weight = 0", "weight = '٣'"])
def test_weights_that_spark_cannot_use(setting: str) -> None:
    with pytest.raises(InvalidValue):
        parse_statement(f"CREATE CLUSTER c POOL 'p' WITH ({setting})")


def test_a_part_of_a_password_is_blanked_too() -> None:
    redaction.remember_all("postgresql://u:hun:ter1@hunter2@127.0.0.1:1/d")
    said = str(UserError("failed to resolve host 'hunter2@127.0.0.1', hun:ter1, ter1"))
    assert "hunter2" not in said and "ter1" not in said and "127.0.0.1" in said


@pytest.mark.parametrize(
    "address",
    [
        "s3://AK:hunter2@bucket/x",
        "s3://AK:hun/hunter2@bucket/x",
        "gs://u:hunter2@b/x",
        "hdfs://u:hunter2@h:1/x",
        "oss://k:hunter2@b/x",
        "s3://bucket/x?secret=hunter2",
    ],
)
def test_arguments_are_secrets_to_whatever_fails(address: str) -> None:
    @public
    def verb(place: str) -> None:
        raise OSError(f"bucket {place[5:]} is not found, nor hunter2")

    with pytest.raises(Unreachable) as error:
        verb(address)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "place", ["abfs://c@acc.dfs.core.windows.net/x", "s3://AK:hunter2@bucket/x", "~nouser-x/y"]
)
def test_a_place_that_cannot_be_used(place: str) -> None:
    @public
    def verb(place: str) -> None:
        Archive(place)

    with pytest.raises(InvalidValue) as error:
        verb(place)
    assert error.value.hint and "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:x@127.0.0.1:hunter2/d",
        "postgresql://u:hunter2@[::1/d",
        "postgresql://u:hun:ter2@hunter2@127.0.0.1:1/d",
    ],
)
def test_an_address_of_a_catalog_that_cannot_be_read(address: str) -> None:
    with pytest.raises(InvalidValue) as error:
        parse_url(address)
    assert "%40" in (error.value.hint or "") and "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    [
        "host=127.0.0.1 port=1 user=u password=hunter2",
        "password = hunter2 host = h",
        "dbname=shop password='hun ter2' sslmode=require",
        "Server=h;Database=d;User Id=u;Password=hunter2",
        "Driver={PostgreSQL};UID=u;PWD=hunter2",
        "u:hunter2@127.0.0.1/d",
        "scott:hunter2@127.0.0.1:5432/d",
        "scott:hun/ter2@h",
    ],
)
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_connection_string_is_no_name_of_a_file(text: str, form: str, tmp_path: Path) -> None:
    """Neither as the catalog nor as a folder, whoever says it; it would show its password to all."""
    given, file = form.format(text), tmp_path / "anabranch.toml"
    file.write_text(f'catalog = "{given}"')
    tries: list[Callable[[], object]] = [
        lambda: Settings.load({"home": given}),
        lambda: Settings.load({"catalog": given, "warehouse": "w"}),
        lambda: Settings.load({"catalog": "sqlite:///c.db", "warehouse": given}),
        lambda: Settings.load(given),
        lambda: Settings.load(file),
        lambda: Store.open(given),
        lambda: Archive(given),
    ]
    for attempt in tries:
        with pytest.raises(InvalidValue) as error:
            attempt()
        assert error.value.hint and "ter2" not in str(error.value)
    with pytest.raises(InvalidValue, match="connection string") as error:
        Settings.load({"catalog": given})
    assert "postgresql://user:password@" in (error.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_folder_may_be_named_like_one() -> None:
    assert Settings.load({"home": "./user=5"}).home.endswith("/user=5")
    assert Settings.load({"home": "day=2026-01-01"}).home.endswith("/day=2026-01-01")
    assert Settings.load({"home": "a:b/c"}, warehouse="file:/x@y").warehouse == "file:/x@y"
