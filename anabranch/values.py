"""Kinds of setting values: how one is read from text, a file or an argument, and how it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anabranch.redaction as redaction
from anabranch.durations import parse_duration, show_duration
from anabranch.errors import InvalidValue
from anabranch.redaction import redacted_address, redacted_value

CONNECT_PORT = 15002
_HOST = re.compile(r"[^\s/;@:]+(?::\d{1,5})?\Z|\[[0-9a-f:.]+\](?::\d{1,5})?\Z")


@dataclass(frozen=True)
class Kind:
    """`read` raises InvalidValue; `example` is a text that `read` takes."""

    name: str
    example: str
    read: Callable[[object], Any]
    show: Callable[[Any], str] = str


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "on": True, "yes": True, "1": True}
    known |= {"false": False, "off": False, "no": False, "0": False}
    if str(value).strip().lower() in known:
        return known[str(value).strip().lower()]
    raise InvalidValue(f"{value!r} is neither true nor false")


def _integer(value: object) -> int:
    try:
        number = int(str(value).strip())
    except ValueError:
        raise InvalidValue(f"{value!r} is not a whole number") from None
    if number < 1:
        raise InvalidValue(f"{value!r} is less than 1")
    return number


def _count(value: object) -> int:
    return 0 if str(value).strip() == "0" else _integer(value)


def _fraction(value: object) -> float:
    try:
        number = float(str(value).strip())
    except ValueError:
        raise InvalidValue(f"{value!r} is not a number") from None
    if not 0 <= number <= 1:
        raise InvalidValue(f"{value!r} is not between 0 and 1")
    return number


def _bound(value: object) -> float | None:
    return None if str(value).strip().lower() == "none" else _fraction(value)


def _interval(value: object) -> float:
    seconds = parse_duration(value)
    if seconds == 0:
        raise InvalidValue(f"{value!r} is not longer than 0")
    return seconds


def _text(value: object) -> str:
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise InvalidValue(f"{value!r} is not a text")
    return str(value).strip()


def _pairs(value: object) -> Mapping[str, str]:
    """Spark properties, from a mapping or from `name=value;name=value`."""
    pairs = dict[str, str]()
    if isinstance(value, Mapping):
        for name, one in value.items():
            nested = _pairs(one) if isinstance(one, Mapping) else {"": spark_text(one)}
            pairs |= {f"{name}.{rest}".rstrip("."): text for rest, text in nested.items()}
        return pairs
    for piece in str(value).split(";"):
        name, equals, one = piece.partition("=")
        if piece.strip() and not (equals and name.strip()):
            raise InvalidValue(f"{piece.strip()!r} is not of the form name=value")
        if piece.strip():
            pairs[name.strip()] = one.strip()
    return pairs


def _hosts(value: object) -> tuple[str, ...]:
    """`host;host:port`, or a list of them."""
    parts = value if isinstance(value, (list, tuple)) else str(value).split(";")
    hosts = tuple(str(part).strip().lower() for part in parts if str(part).strip())
    if hosts == ("none",):
        return ()
    for host in hosts:
        if not _HOST.match(host):
            raise InvalidValue(f"{host!r} is neither host nor host:port")
    return hosts


def host_of(address: str) -> tuple[str, int]:
    """Host and port of a Spark Connect server; no host if PySpark reads it otherwise."""
    try:
        parts = urlsplit("http" + address[2:])
        if "@" in parts.netloc:
            return "", 0
        return (parts.hostname or "").lower(), parts.port or CONNECT_PORT
    except ValueError:
        return "", 0


def connect_problem(address: str) -> str | None:
    """Why this cannot be the address of a Spark Connect server, which starts with sc://."""
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in address):
        return "it holds control characters"
    try:
        parts = urlsplit("http" + address[2:])
        host, port = parts.hostname, parts.port
    except ValueError:
        return "its host or port cannot be read; a port is a number up to 65535"
    if not host or set("@;,\\") & set(parts.netloc):
        return "it names no host, or more than one"
    if port == 0:
        return "port 0 is not a port"
    if parts.path not in ("", "/") and not parts.path.startswith("/;"):
        return "it has a path; parameters follow /;"
    return None


def spark_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolved(text: str, *, address: bool = False) -> str:
    """The text with the secrets that it refers to: ENV('X'), FILE('…')."""
    try:
        return redaction.resolved_in_address(text) if address else redaction.resolved(text)
    except redaction.MissingSecret as error:
        raise InvalidValue(str(error), hint="set it where the process starts") from None


BOOLEAN = Kind("boolean", "true", _boolean, lambda value: "true" if value else "false")
INTEGER = Kind("integer", "4", _integer)
COUNT = Kind("count", "100000", _count)
BOUND = Kind("fraction", "0.5", _bound, lambda value: "none" if value is None else str(value))
DURATION = Kind("duration", "7d", parse_duration, show_duration)
INTERVAL = Kind("duration", "1s", _interval, show_duration)
FOLDER = Kind("folder", "./warehouse", _text, redacted_address)
CATALOG = Kind("catalog", "postgresql://user@host/database", _text, redacted_address)
MASTER = Kind("text", "local[4]", _text, redacted_address)
PROFILE = Kind("text", "prod", _text)
REMOTE = Kind("text", "sc://host:15002", _text, redacted_address)
HOSTS = Kind("hosts", "spark.example.org:15002", _hosts, lambda value: ";".join(value) or "none")
PAIRS = Kind(
    "properties",
    "spark.driver.memory=4g;spark.sql.shuffle.partitions=8",
    _pairs,
    lambda value: ";".join(f"{name}={redacted_value(name, one)}" for name, one in value.items()),
)


def choice(*known: str) -> Kind:
    def read(value: object) -> str:
        text = str(value).strip().lower()
        if text not in known:
            raise InvalidValue(f"{value!r} is not one of {', '.join(known)}")
        return text

    return Kind(f"one of {', '.join(known)}", known[0], read)
