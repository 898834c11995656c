"""Secrets of any letters, under any name that says so, are shown nowhere."""

from __future__ import annotations

import itertools
import json
import re
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch import redaction
from anabranch.errors import InvalidValue, UserError
from anabranch.redaction import (
    holds_secret,
    is_secret,
    redacted,
    redacted_address,
    redacted_value,
    remember_all,
)
from anabranch.settings import Settings
from anabranch.sql.statements.read import parse_statement
from anabranch.values import CATALOG, FOLDER, MASTER, PAIRS, REMOTE

SEED = "Zq7Xw9"  # in every password, and nowhere else
ODD = " \t'\"@/%#?&;:=+$\\()[]{}<>|,.!~^`*-_éß中🔑\u00a0\u2028"
passwords = st.builds(
    lambda before, middle, after: f"{before}{SEED}{middle}{SEED}{after}",
    *[st.text(st.sampled_from(ODD + "ab1"), max_size=6)] * 3,
)
IN_USER_INFO = (
    "postgresql://me:{}@host/db",
    "postgresql://me:{}@host:5432/db?sslmode=require&user=x",
    "postgresql+psycopg://:{}@[::1]:5432/db",
    "postgresql://me:{}@host/db?options=-csearch_path%3Da@b",
    "s3://key:{}@bucket/path",
    "jdbc:oracle://me:{}@host/db",
    "sc://me:{}@host:15002/;use_ssl=true",
)
IN_PARAMETERS = (
    "postgresql://host/db?{}={}",
    "postgresql://host/db?user=x&{}={}&sslmode=require",
    "postgresql://me@host/db?application_name=a&{}={}",
    "jdbc:postgresql://host/db?user=u&{}={}",
    "https://host/path?a=b&{}={}",
)
PARAMETERS = ("password", "sslpassword", "pass", "pwd", "PASSWORD", "token", "api_key", "auth")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.chdir(tmp_path)


@given(passwords, st.sampled_from(IN_USER_INFO))
@example(f"my {SEED} word", IN_USER_INFO[0])
@example(f"a?password={SEED}", IN_USER_INFO[0])
def test_a_password_in_an_address(password: str, form: str) -> None:
    for text in (form.format(password), form.format(quote(password, safe=""))):
        for kind in (FOLDER, CATALOG, MASTER, REMOTE):
            assert SEED not in kind.show(text)
        assert "***@" in redacted_address(text)
        assert SEED not in redacted_value("spark.some.address", text)
        assert holds_secret("spark.some.address", text)


@given(passwords, st.sampled_from(IN_PARAMETERS), st.sampled_from(PARAMETERS))
@example(f"a b c {SEED}", IN_PARAMETERS[1], "sslpassword")
@example(f"a@{SEED}:x", IN_PARAMETERS[2], "password")
@example(f"'{SEED}:{SEED}@", IN_PARAMETERS[0], "password")
def test_a_password_in_a_parameter(password: str, form: str, name: str) -> None:
    plain = password.replace("&", "+").replace("=", "+")  # these end a value, whoever reads it
    for value in (plain, quote(password, safe="")):
        assert SEED not in redacted_address(form.format(name, value))
        assert SEED not in redacted_value("spark.some.address", form.format(name, value))


@given(passwords)
def test_parameters_of_a_connect_server(password: str) -> None:
    value = password.replace(";", "+").replace("=", "+")
    shown = redacted_address(f"sc://host:15002/;token={value};use_ssl=true")
    assert SEED not in shown
    assert "@" in value or shown.startswith("sc://host:15002/;token=***")


def test_a_misspelt_parameter_of_libpq_is_no_less_secret() -> None:
    assert redacted_address("postgresql://h/db?passwrod=abcd") == "postgresql://h/db?passwrod=***"
    shown = "postgresql://h/db?sslmode=require&sslrootcert=/a/b&connect_timeout=3&options=-cx%3Dy"
    assert redacted_address(shown) == shown


@given(passwords, st.sampled_from(IN_USER_INFO))
def test_what_was_given_is_blanked_in_errors(password: str, form: str) -> None:
    remember_all(form.format(password))
    quoted = [quote(password, safe=safe) for safe in ("", "/", " +")]
    lower = [re.sub("%..", lambda found: found[0].lower(), each) for each in quoted]
    written = [json.dumps(password)[1:-1], re.sub(r"['\\]", r"\\\g<0>", password)]
    for said in (password, repr(password)[1:-1], *quoted, *lower, *written):
        assert SEED not in str(UserError(f"the driver said {said} is wrong"))


@pytest.mark.parametrize("password", ["my pass word", "a\tb", "é ü", "p'q r\"s", "x]y[z w"])
def test_the_whole_of_settings_shows_none(password: str) -> None:
    made = Settings.load(
        {"catalog": f"postgresql://me:{password} {SEED}@h/db?sslpassword=a b {SEED}"},
        warehouse="wh",
        **{"spark.conf": {"spark.hadoop.fs.s3a.encryption.key": f"{password} {SEED}"}},
    )
    assert SEED not in repr(made)
    assert SEED not in str(made.rows())
    assert SEED not in str(UserError(f"cannot reach {made.catalog}"))
    assert SEED not in PAIRS.show(made.spark_conf)


# -- names ---------------------------------------------------------------------------------------

BEFORE = ("", "spark.", "spark.hadoop.fs.s3a.", "my_", "spark.ssl.ui.", "db-", "server.")
SECRET = (
    "password", "passwd", "pass", "PASSWORD", "keyPass", "trustStorePassword", "keystore.pass",
    "secret", "secret.key", "client.secret", "secretKey", "secretId", "token", "access_token",
    "session.token", "accessKey", "access.key", "apiKey", "api-key", "apikey", "encryption.key",
    "server-side-encryption.key", "account.key.foo.blob.core.windows.net", "account.key.foo.file",
    "private-key", "shared_key", "credential", "credentials", "signature", "sas", "pwd",
    "authorization", "Authorization", "proxy.authorization", "auth", "basic.auth.user.info",
    "passphrase", "passcode", "sessionCookie", "jwt", "passwordadmin", "signingKey", "key",
)  # fmt: skip
PLAIN = (
    "credentials.provider", "token.enabled", "token.renewal", "password.file", "secret.path",
    "token.lifetime", "tokens.timeout", "sslkey", "shuffle.partitions", "compass", "bypass.mode",
    "keyspace", "monkey.business", "passenger.count", "author", "keystore.type", "sasl.mechanism",
    "authenticate", "keytab.location", "token.expiration",
)  # fmt: skip


def names(ends: tuple[str, ...]) -> list[str]:
    return [f"{before}{end}" for before, end in itertools.product(BEFORE, ends)]


@pytest.mark.parametrize("name", names(SECRET))
def test_a_name_that_says_secret(name: str) -> None:
    assert is_secret(name)
    assert redacted_value(name, SEED) == "***"
    assert redacted_value(name, f"ENV('{SEED}')") == f"ENV('{SEED}')"
    assert redacted_value(name, "true") == "true", "a switch is none"
    with pytest.raises(InvalidValue, match="the catalog keeps none") as error:
        parse_statement(f"CREATE CLUSTER c ADDRESS 'sc://h' WITH ('spark.{name}' = '{SEED}')")
    assert SEED not in str(error.value)
    for text in (
        f"{name}={SEED}",
        f"a {name} = '{SEED} x''{SEED}' b",
        f"{{'{name}': \"{SEED} y\"}}",
    ):
        assert SEED not in redacted(text)


@pytest.mark.parametrize("name", names(PLAIN))
def test_a_name_that_does_not(name: str) -> None:
    assert not is_secret(name)
    assert redacted_value(name, "value") == "value"


@pytest.mark.parametrize("value", ["true", "FALSE", " none ", "null", ""])
def test_a_switch_is_not_blanked_everywhere(value: str) -> None:
    redaction.remember(value)
    assert not redaction._known


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a=" * 100_000, "password='" * 20_000, "x://" * 50_000, "a://b:" * 40_000,
             "?password=" * 20_000, "'a':" * 50_000, "a " * 100_000 + "@", "x://a:b " * 25_000]
)  # fmt: skip
def test_long_texts_take_no_minutes(text: str) -> None:
    """They took minutes, not seconds, by growing with the square."""
    begin = time.process_time()
    redacted(text[: len(text) // 4])
    quarter = time.process_time() - begin
    begin = time.process_time()
    redacted(text)
    assert time.process_time() - begin < 12 * quarter + 1
