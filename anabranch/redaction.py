"""Secrets: told by the names they stand under, referred to instead of written, never shown.

`redacted` cleans what is shown on purpose: addresses and properties.  `hide` is the last line of
defence for texts that others wrote, such as a driver's message: it blanks every secret that this
process was given.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
# Spark's own pattern (secret, password, token, access key) and more.
_SECRET = (
    r"secret|passwd|password|passphrase|token|access[._-]?key|api[._-]?key|account[._-]?key"
    r"|private[._-]?key|shared[._-]?key|credential|signature|\bsas\b|\bpwd\b|\.sas\."
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
# Names that only speak of secrets.
_INNOCENT = re.compile(
    r"provider$|\.enabled$|renewal|\.lifetime|timeout|expir|\.path$|file$|sslkey$", re.IGNORECASE
)
# Begins at the word that gives a secret away, and parts are bounded: otherwise a search takes minutes
# over a text of 100,000 letters.
_PAIR = re.compile(
    rf"""((?:{_SECRET})[\w.-]{{0,60}}\s{{0,9}}=\s*)("[^"]*"|'[^']*'|[^\s;,&"']+)""", re.IGNORECASE
)
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,20}://)(\S+)")
_REFERENCE = re.compile(r"(ENV|FILE)\(\s*'([^']+)'\s*\)", re.IGNORECASE)
_SHORTEST = 4  # blanking shorter texts would blank words of any message

_known: set[str] = set()
_lock = threading.Lock()


class MissingSecret(ValueError):
    """A reference that leads nowhere."""


def is_secret(name: str) -> bool:
    """Whether the value of a property, option or parameter of this name is a secret."""
    return bool(_SECRET_NAME.search(name)) and not _INNOCENT.search(name)


def is_reference(text: str) -> bool:
    """Is the whole text ENV('X') or FILE('…')?"""
    return _REFERENCE.fullmatch(text.strip()) is not None


def holds_reference(text: str) -> bool:
    """Does ENV('X') or FILE('…') stand anywhere in it?"""
    return _REFERENCE.search(text) is not None


def redacted(text: str) -> str:
    """A text fit to be shown: without passwords in addresses and values of secret names."""
    return _PAIR.sub(_without_value, _ADDRESS.sub(_without_password, text))


def redacted_value(name: str, value: str) -> str:
    """The value of a property, fit to be shown."""
    if is_secret(name) and value and not is_reference(value):
        return HIDDEN
    return redacted(value)


def holds_secret(name: str, value: str) -> bool:
    """Whether a property carries a secret in plain letters."""
    return redacted_value(name, value) != value


def _without_password(found: re.Match[str]) -> str:
    """`user:***@host`; a password may hold any letter, so all up to the last @ is taken for it."""
    scheme, rest = found.groups()
    user_info, at, behind = rest.rpartition("@")
    user, colon, password = user_info.partition(":")
    if not at or not colon or is_reference(password):
        return found[0]
    return f"{scheme}{user}:{HIDDEN}@{behind}"


def _without_value(found: re.Match[str]) -> str:
    name = found[1].rstrip("= \t")
    return f"{found[1]}{HIDDEN}" if is_secret(name) and not _is_reference_start(found) else found[0]


def _is_reference_start(found: re.Match[str]) -> bool:
    return _REFERENCE.match(found.string, found.start(2)) is not None


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
    remember(value)
    return value


# -- the last line of defence --------------------------------------------------------------------


def remember(value: str) -> None:
    """From now on `hide` blanks this text, however it is escaped."""
    forms = {value, unquote(value), unquote_plus(value), quote(value, safe=""), quote_plus(value)}
    with _lock:
        _known.update(each for each in forms if len(each) >= _SHORTEST)


def remember_all(text: str) -> None:
    """The same for every secret in an address or a list of properties."""
    for found in _ADDRESS.finditer(text) if "://" in text else ():
        password = found[2].rpartition("@")[0].partition(":")[2]
        if password:
            remember(password)
    for found in _PAIR.finditer(text):
        if is_secret(found[1].rstrip("= \t")):
            remember(found[2].strip("\"'"))


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
