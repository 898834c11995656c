"""Secrets: told by the names they stand under, referred to instead of written, never shown.

`redacted` cleans what is shown on purpose: addresses and properties.  `hide` is the last line of
defence for texts that others wrote, such as a driver's message: it blanks every secret that this
process was given.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
# Spark's own pattern (secret, password, token, access key) and more.
_SECRET = re.compile(
    r"secret|passwd|password|passphrase|passcode|token|credential|signature|authorization"
    r"|(?:access|api|account|private|shared|encryption|encrypt|signing|master)[._-]?key"
    r"|user[._-]?info",
    re.IGNORECASE,
)
# Whole words of a name, `keyPass` has two; an abbreviation may also be a part of another word.
_SECRET_WORDS = {
    "pass",
    "pwd",
    "pw",
    "sas",
    "pin",
    "otp",
    "jwt",
    "bearer",
    "cookie",
    "apikey",
    "sig",
}
_SECRET_LAST = {"key", "auth", "keypass"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Names that only speak of secrets end so; a key of an account has the account's name at its end.
_INNOCENT_LAST = {
    "sslkey", "location", "class", "type", "algorithm", "format", "issuer", "endpoint", "alias",
    "enabled", "required", "renewal", "renew", "ratio", "lifetime", "timeout", "expiry", "expiration",
    "expires", "interval", "ttl", "length", "bits", "size", "version", "count", "max", "min", "ms",
    "sec", "seconds", "minutes", "hours", "days",
}  # fmt: skip
_INNOCENT_END = ("provider", "path", "file")
_ACCOUNT = re.compile(r"account[._-]?key\.", re.IGNORECASE)
_NO_SECRET = {"", "true", "false", "none", "null"}
# Each part is bounded, or begins where another ends: otherwise a search takes minutes over a text of
# 100,000 letters.
_QUOTED = r""""(?:[^"\\]|\\.|"")*"|'(?:[^'\\]|\\.|'')*'"""
_PAIR = re.compile(
    rf"""(?<![\w.-])(?P<name>[\w.-]+)\s{{0,9}}=\s{{0,9}}(?P<value>{_QUOTED}|[^\s;,&"']+)"""
)
_ENTRY = re.compile(rf"""(["'])(?P<name>[\w.-]+)\1\s{{0,9}}:\s{{0,9}}(?P<value>{_QUOTED})""")
_IN_QUERY = re.compile(r"""[?&](?P<name>[^\s=&?"']{1,100})=(?P<value>[^&"'<>\n]+)""")
_NAMED = (_IN_QUERY, _ENTRY, _PAIR)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)(\S+)")
# A password with blanks in a text; `host:5432/` is a port.
_WITH_BLANKS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)([^\s:/?#@]{0,100}:(?!\d{1,5}[/?\s])[^@\n]{1,200}@\S{0,500})"
)
_KEYWORDS = re.compile(r"\s*\w{1,30}\s{0,9}=\s{0,9}\S")  # how libpq's and ODBC's strings begin
# What stands where a port should: somebody left out or mistook a part of the address.
_NO_PORT = re.compile(r"\A[^\[\]/?#:]{0,200}:(?!\d{1,5}(?:[,/?#]|\Z))([^/?#]{1,200})")
_WHOLE = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.:-]{0,40}://)(.*)\Z", re.DOTALL)
_PARAMETER = re.compile(r"[?&;]([^=&;?]{1,100})=")
_LIBPQ = re.compile(r"postgres\w*(?:\+\w+)?://", re.IGNORECASE)
# What libpq's parameters may be shown: any other may be a password that was misspelt.
_PLAIN = {
    "host", "hostaddr", "port", "dbname", "user", "connect_timeout", "options", "application_name",
    "client_encoding", "fallback_application_name", "keepalives", "keepalives_idle",
    "keepalives_interval", "keepalives_count", "tcp_user_timeout", "sslmode", "sslnegotiation",
    "sslcompression", "sslcert", "sslkey", "sslcertmode", "sslrootcert", "sslcrl", "sslcrldir",
    "sslsni", "ssl_min_protocol_version", "ssl_max_protocol_version", "requirepeer", "gssencmode",
    "channel_binding", "require_auth", "krbsrvname", "target_session_attrs", "load_balance_hosts",
    "service", "passfile", "requiressl", "gsslib", "gssdelegation", "min_protocol_version",
}  # fmt: skip
# Words that begin a connection string elsewhere: of ODBC, ADO and drivers for Python.
_ELSEWHERE = {"server", "driver", "dsn", "data source", "database", "uid", "user id", "username"}
_WEB = re.compile(r"https?://", re.IGNORECASE)
_CONNECT = re.compile(r"sc://", re.IGNORECASE)
# What Spark Connect's parameters may be shown: any other is sent as a header, and those in x-… are what
# gateways log in by.
_PLAIN_HEADERS = {"x-databricks-cluster-id"}
_REFERENCE = re.compile(r"(ENV|FILE)\(\s*'([^']+)'\s*\)", re.IGNORECASE)
_PERCENT = re.compile("%[0-9A-F]{2}")
_LIBPQ_ESCAPED = re.compile(r"['\\]")
_PORT = re.compile(r"\d{1,5}")
_SHORTEST = 4  # blanking shorter texts would blank words of any message

_known: set[str] = set()
_lock = threading.Lock()


class MissingSecret(ValueError):
    """A reference that leads nowhere."""


def is_secret(name: str) -> bool:
    """Whether the value of a property, option or parameter of this name is a secret."""
    words = [word.lower() for word in _WORD.findall(unquote(name))]
    if not words:
        return False
    if _ACCOUNT.search(name):
        return True
    if words[-1] in _INNOCENT_LAST or words[-1].endswith(_INNOCENT_END):
        return False
    if words[-1] in _SECRET_LAST or not _SECRET_WORDS.isdisjoint(words):
        return True
    return _SECRET.search(unquote(name)) is not None


def is_keyword(name: str) -> bool:
    """Whether a connection string may have this word before a =."""
    return name.lower() in _PLAIN | _ELSEWHERE or is_secret(name)


def is_plain_parameter(name: str) -> bool:
    """Whether a parameter of libpq may be shown; one that nobody knows may be a misspelt password."""
    return unquote(name).strip().lower() in _PLAIN


def is_reference(text: str) -> bool:
    """Is the whole text ENV('X') or FILE('…')?"""
    return _REFERENCE.fullmatch(text.strip()) is not None


def holds_reference(text: str) -> bool:
    """Does ENV('X') or FILE('…') stand anywhere in it?"""
    return _REFERENCE.search(text) is not None


def redacted(text: str) -> str:
    """A text fit to be shown: without passwords in addresses and values of secret names."""
    text = _WITH_BLANKS.sub(_without_secrets, text)
    text = _ADDRESS.sub(_without_secrets, text)
    for pattern in _NAMED:
        text = pattern.sub(_without_value, text)
    return text


def redacted_address(text: str) -> str:
    """The same for what is one address from its first letter to its last, blanks included."""
    return redacted(
        "".join(HIDDEN if secret else piece for piece, secret in _pieces(text, strict=True))
    )


def redacted_value(name: str, value: str) -> str:
    """The value of a property, fit to be shown."""
    if is_secret(name) and _may_be_secret(value):
        return HIDDEN
    return redacted_address(value)


def holds_secret(name: str, value: str) -> bool:
    """Whether a property carries a secret in plain letters."""
    return redacted_value(name, value) != value


def _may_be_secret(value: str) -> bool:
    return value.strip().lower() not in _NO_SECRET and not is_reference(value)


def _without_secrets(found: re.Match[str]) -> str:
    return "".join(HIDDEN if secret else piece for piece, secret in _pieces(found[0]))


def _pieces(address: str, *, strict: bool = False) -> Iterator[tuple[str, bool]]:
    """An address in pieces, and whether each is a secret; if `strict`, what nobody knows is one.

    A password may hold any letter, so all up to the last @ is taken for it.
    """
    whole = _WHOLE.match(address)
    if whole is None:
        yield address, False
        return
    scheme, rest = whole.groups()
    hides = _is_secret_in(scheme, strict=strict)
    before, at, behind = rest.rpartition("@")
    user, colon, password = before.partition(":")
    if at and not colon and _WEB.match(scheme) and not re.search("[/?#]", before):
        yield address[: whole.start(2)], False
        yield before, not is_reference(before)  # a token, where a name alone logs nobody in
        yield at, False
        yield from _parameters(behind, hides)
        return
    if not (at and colon and password):
        yield address[: whole.start(2)], False
        yield from _parameters(rest, hides)
        return
    secret = next((each for each in _PARAMETER.finditer(user) if hides(each[1])), None)
    if secret:  # the colon is one of a parameter's value
        user, password = before[: secret.end()], before[secret.end() :]
    yield f"{address[: whole.start(2)]}{user}{'' if secret else ':'}", False
    yield password, not is_reference(password)
    yield at, False
    if any(hides(name) for name in _PARAMETER.findall(before)):
        found = re.search(r"[?;&]", before)  # the @ was one of a parameter's value
        separator = ";" if found and found[0] == ";" else "&"
        part, and_, behind = behind.partition(separator)
        yield part, True
        behind = and_ + behind
    yield from _parameters(behind, hides)


def _possible(address: str) -> Iterator[str]:
    """What may be meant to be a secret: an @ may end a password, or stand in one or in a parameter."""
    for piece, secret in _pieces(address, strict=True):
        if secret:
            yield piece
            yield from (piece[: at.start()] for at in islice(re.finditer("@", piece), 20))
            yield from _parts(piece)
    if whole := _WHOLE.match(address):
        if port := _NO_PORT.search(whole[2].rpartition("@")[2]):
            yield port[1]
        hides = _is_secret_in(whole[1], strict=True)
        yield from (piece for piece, secret in _parameters(whole[2], hides) if secret)


def _parts(secret: str) -> Iterator[str]:
    """Whatever reads the address in another way may show a part of a password as host or path."""
    ends = islice(re.finditer("[@:/?#]", secret), 20)
    parts = [secret[at.end() :] for at in ends] + re.split("[@:/?#]", secret, maxsplit=20)[:20]
    yield from (part for part in parts if not _PORT.fullmatch(part))


def _parameters(rest: str, hides: Callable[[str], bool]) -> Iterator[tuple[str, bool]]:
    """`?name=value&…` or `;name=value;…`; what has no name belongs to the value before it."""
    start = re.search(r"[?;&]", rest)
    if start is None:
        yield rest, False
        return
    yield rest[: start.end()], False
    separator = ";" if start[0] == ";" else "&"
    hidden = False
    for at, part in enumerate(rest[start.end() :].split(separator)):
        name, equals, value = part.partition("=")
        yield separator if at else "", False
        if equals:
            hidden = hides(name)
            yield name + equals, False
        yield (value if equals else part), hidden and _may_be_secret(value if equals else part)


def _is_secret_in(scheme: str, *, strict: bool) -> Callable[[str], bool]:
    if _CONNECT.match(scheme):
        return _is_secret_header
    return _is_unknown if strict and _LIBPQ.match(scheme) else is_secret


def _is_secret_header(name: str) -> bool:
    plain = unquote(name).strip().lower()
    return is_secret(name) or (plain.startswith("x-") and plain not in _PLAIN_HEADERS)


def _is_unknown(name: str) -> bool:
    return not is_plain_parameter(name)


def _without_value(found: re.Match[str]) -> str:
    start = found.start("value")
    if not is_secret(found["name"]) or not _may_be_secret(found["value"].strip("\"'")):
        return found[0]
    if _REFERENCE.match(found.string, start):
        return found[0]
    return found[0][: start - found.start()] + HIDDEN


# -- references --------------------------------------------------------------------------------


def resolved(text: str) -> str:
    """The text with every ENV('X') and FILE('…') replaced by what it names; raises MissingSecret."""
    return _REFERENCE.sub(lambda found: _named(found[1].upper(), found[2]), text)


def resolved_in_address(text: str) -> str:
    """The same for an address, in which odd letters have to be escaped."""
    return _REFERENCE.sub(lambda found: quote(_named(found[1].upper(), found[2]), safe=""), text)


def _named(kind: str, name: str) -> str:
    if kind == "ENV":
        value = os.environ.get(name)
        if value is None:
            raise MissingSecret(f"ENV('{name}'): there is no environment variable {name}")
    else:
        try:
            value = Path(name).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise MissingSecret(f"FILE('{name}') cannot be read: {reason}") from None
        except RuntimeError:  # of ~name
            raise MissingSecret(f"FILE('{name}'): there is no such home folder") from None
    remember(value)
    return value


# -- the last line of defence --------------------------------------------------------------------


def remember(value: str) -> None:
    """From now on `hide` blanks this text, however it is escaped."""
    if not _may_be_secret(value):
        return
    plain = {value, value.strip(), unquote(value), unquote_plus(value)}
    forms = {form for each in plain for form in _forms(each)}
    with _lock:
        _known.update(each for each in forms if len(each) >= _SHORTEST)


def _forms(value: str) -> Iterator[str]:
    """How others write it: in addresses, in Python and JSON, and to libpq."""
    yield value
    for safe in ("", "/", " +"):  # as an address has it, as a path has it, as SQLAlchemy does
        quoted = quote(value, safe=safe)
        yield from (quoted, _PERCENT.sub(lambda found: found[0].lower(), quoted))
    yield quote_plus(value)
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield _LIBPQ_ESCAPED.sub(r"\\\g<0>", value)


def remember_secrets(properties: Mapping[str, object]) -> None:
    """Never show the values of properties that have names of secrets."""
    for name, value in properties.items():
        if is_secret(name):
            remember(str(value))


def remember_all(text: str) -> None:
    """The same for every secret in an address or a list of properties."""
    for piece in _possible(text):
        remember(piece)
    for pattern in _NAMED:
        for found in pattern.finditer(text):
            if is_secret(found["name"]):
                remember(found["value"].strip("\"'"))


def remember_address(text: str) -> None:
    """The same for a text that may be an address or a connection string; others are left alone."""
    if _WHOLE.match(text) or _KEYWORDS.match(text):
        remember_all(text)
    if _KEYWORDS.match(text):  # a password with blanks that nobody has quoted goes on to the end
        for found in _PAIR.finditer(text):
            if is_secret(found["name"]):
                remember(text[found.start("value") :])


def hide(text: str) -> str:
    """A text in which no secret stands that this process was given."""
    if not _known:
        return text
    with _lock:
        known = sorted(_known, key=len, reverse=True)
    for value in known:
        if value in text:
            text = text.replace(value, HIDDEN)
    return text
