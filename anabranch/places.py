"""Where a catalog and its warehouse lie: folders, URLs and the settings file."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from anabranch.durable import sync_entry
from anabranch.errors import InvalidValue, Refused, Unreachable
from anabranch.redaction import is_keyword, redacted_address

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHARED = stat.S_ISGID | stat.S_IWGRP
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(.+)\Z")
_SERVER = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_KEYWORD = re.compile(r"\s*([A-Za-z][A-Za-z_ ]{0,40})=")
_LOGIN = re.compile(r"(?!file:)[^/\s:@=]+:(?!/)\S*@")


def is_url(text: str) -> bool:
    return _SCHEME.match(text) is not None and not Path(text).exists()


def argument(place: object) -> tuple[Mapping[str, Any], Path | None]:
    """What `connect(place)` says: settings, and the settings file if one was named."""
    if place is None:
        return {}, None
    if isinstance(place, Mapping):
        return place, None
    if not isinstance(place, (str, Path)) or not str(place).strip():
        raise InvalidValue(
            f"{place!r} is not a place to connect to",
            hint="give a folder, a catalog URL, a settings file or a mapping of settings",
        )
    text = str(place)
    if is_url(text):
        return {"catalog": check_catalog(text)}, None
    if text.endswith(".toml"):
        return {}, Path(text).resolve()
    if expanded(text).is_file():
        raise InvalidValue(
            f"{text} is a file, not a folder", hint=f"for a SQLite catalog write sqlite:///{text}"
        )
    return {"home": text}, None


def check_catalog(text: str) -> str:
    """The catalog as a URL; a plain path is a SQLite file."""
    refuse_connection_string(text)
    if not is_url(text):
        return f"sqlite:///{absolute(text)}"
    if sqlite := _SQLITE.match(text):
        return text.replace(sqlite[1], absolute(sqlite[1]))
    if _SERVER.match(text):
        return text
    raise InvalidValue(
        f"setting catalog: {redacted_address(text)!r} is not a catalog that Anabranch can use",
        hint="use sqlite:///path/catalog.db or postgresql://user:password@host/database",
    )


def resolve(layers: Sequence[Mapping[str, Any]], default_home: str) -> dict[str, str]:
    """Home, catalog and warehouse from the nearest layer that says where.

    A layer that names `home` hides a catalog and a warehouse that farther layers name.
    """
    warehouse = ""
    for layer in layers:
        warehouse = warehouse or layer.get("warehouse", "")
        if "catalog" in layer:
            farther = [other.get("warehouse", "") for other in layers]
            return _with_catalog(layer, warehouse or next(filter(None, farther), ""), default_home)
        if "home" in layer:
            return _in_home(layer["home"], warehouse)
    return _in_home(default_home, warehouse)


def _in_home(home: str, warehouse: str) -> dict[str, str]:
    folder = Path(absolute(home))
    return {
        "home": str(folder),
        "catalog": catalog_in(folder),
        "warehouse": absolute(warehouse or str(folder / "warehouse")),
    }


def _with_catalog(layer: Mapping[str, Any], warehouse: str, default_home: str) -> dict[str, str]:
    catalog = check_catalog(layer["catalog"])
    sqlite = _SQLITE.match(catalog)
    if not warehouse and not sqlite:
        raise InvalidValue(
            "a PostgreSQL catalog needs the setting warehouse: the folder of the data files",
            hint="for example warehouse=/data/warehouse, or ANABRANCH_WAREHOUSE",
        )
    beside = Path(sqlite[1]).parent if sqlite else Path(absolute(default_home))
    return {
        "home": absolute(layer.get("home", str(beside))),
        "catalog": catalog,
        "warehouse": absolute(warehouse or str(beside / "warehouse")),
    }


def catalog_in(home: Path) -> str:
    return f"sqlite:///{home / 'catalog.db'}"


def create_folder(path: Path, *, fsync: bool) -> None:
    """A folder for its owner only, unless it is made in one that a group shares.

    With `fsync` it is found again after a power cut, and so is every folder above it that was made.
    """
    try:
        if path.is_dir():
            return
        above = [*takewhile(lambda each: not each.exists(), path.parents)]
        for folder in reversed(above):
            folder.mkdir(exist_ok=True)
            if fsync:
                sync_entry(folder)
        path.mkdir(exist_ok=True, mode=0o777 if is_shared(path.parent) else 0o700)
        if fsync:
            sync_entry(path)
    except OSError as error:
        raise Unreachable(
            f"folder {path} cannot be made: {error.strerror}", hint="choose another place"
        ) from None


def create_file(path: Path, *, fsync: bool = False) -> None:
    """An empty file for its owner only, where there is none; the same holds."""
    if not path.exists():
        with suppress(OSError):  # whoever opens it says what is wrong
            path.touch(mode=0o666 if is_shared(path.parent) else 0o600)
            if fsync:
                sync_entry(path)


def is_shared(folder: Path) -> bool:
    """Somebody let a group write here, and what is made here belong to it: chmod g+ws."""
    try:
        return folder.stat().st_mode & _SHARED == _SHARED
    except OSError:
        return False


def refuse_connection_string(text: str) -> None:
    """What other programs log in with is no name of a file, which everybody would see."""
    keyword = _KEYWORD.match(text)
    if (keyword and is_keyword(keyword[1].strip())) or _LOGIN.match(text):
        raise InvalidValue(
            "a connection string such as host=… password=… is neither a folder nor an address",
            hint="write postgresql://user:password@host:port/database; a file or folder whose own "
            "name is like this is written ./name",
        )


def expanded(text: str) -> Path:
    """The path, with ~ and ~name for a home folder."""
    refuse_connection_string(text)
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InvalidValue(
            f"{text}: there is no home folder for {Path(text).parts[0]}",
            hint="write the full path; a folder whose own name starts with ~ is written ./~name",
        ) from None


def absolute(text: str) -> str:
    """A local path made absolute; a URL as it is."""
    refuse_connection_string(text)
    return text if is_url(text) else str(expanded(text).absolute())


def local_part(text: str) -> str | None:
    """The path of a folder or of a SQLite catalog; None for anything else."""
    if sqlite := _SQLITE.match(text):
        return sqlite[1]
    return None if is_url(text) or text.startswith("file:") else text


def relative_to(folder: Path, text: str) -> str:
    """A path written in a file, seen from the file's folder."""
    if sqlite := _SQLITE.match(text):
        return text.replace(sqlite[1], str(folder / expanded(sqlite[1])))
    return text if is_url(text) else str(folder / expanded(text))


def find_file(folder: Path, name: str) -> Path | None:
    """The settings file in `folder` or the nearest folder above it.

    One that another user put there is refused, as git does: whoever can write to a folder above ours
    must not decide what we run.
    """
    above = (folder, *folder.parents)
    found = next((each / name for each in above if (each / name).is_file()), None)
    if found is not None and not _is_trusted(found):
        raise Refused(
            f"{found} belongs to another user, and controls what is run here",
            hint=f"if you trust it, name it: connect({str(found)!r}), or take it over with chown",
        )
    return found


def _is_trusted(path: Path) -> bool:
    """Whether a file is ours, root's, or that of whoever became root with sudo."""
    if not hasattr(os, "geteuid"):
        return True
    trusted = {0, os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))
    return path.stat().st_uid in trusted


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"cannot read settings: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue(f"not a valid TOML file: {error}") from None
