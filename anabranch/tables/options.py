"""What a user may say of a stream table besides its query: every option, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.catalog.bounds import BOUNDS
from anabranch.errors import InvalidValue, UnknownName, Unsupported, did_you_mean
from anabranch.graph.policies import DEFAULT
from anabranch.model import RefreshMode
from anabranch.schedules import Schedule
from anabranch.settings import Settings
from anabranch.values import BOOLEAN

CLAUSES = {"schedule": "SCHEDULE", "refresh_mode": "REFRESH MODE", "cluster": "IN CLUSTER"}
AT_CREATION = frozenset({"initialize"})  # an option of the statement, not of the table


def written_options(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of WITH (…) and SET (…), in a statement or a file; some have clauses of their own."""
    for name in options:
        if name in CLAUSES:
            raise Unsupported(f'"{name}" is not an option', hint=f"write {CLAUSES[name]} …")
        if name not in READERS:
            known = [each for each in READERS if each not in CLAUSES]
            hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
            raise Unsupported(f'there is no option "{name}"', hint=hint)
    return dict(options)


def read_options(
    values: Mapping[str, Any], settings: Settings, *, altering: bool = False
) -> dict[str, Any]:
    """The options that are given, checked; text is read as SQL has it."""
    for name in values:
        if name not in READERS:
            raise UnknownName(f'there is no option "{name}"', name=name, known=READERS)
        if altering and name in AT_CREATION:
            raise InvalidValue(f"option {name} is for CREATE", hint="REFRESH STREAM TABLE fills it")
    return {name: READERS[name](value, name, settings) for name, value in values.items()}


def with_defaults(values: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The same for a new table: what is not said of consistency is what the settings say now.

    Bounds of cycles are kept with the table if somebody has set them; otherwise the setting of the day
    holds.
    """
    said = {"diamond_consistency": None, "diamond_schedule_policy": None, **values}
    for name in BOUNDS:
        if said.get(name) is None and name in settings.origins:
            said[name] = settings[name]
    return read_options(said, settings)


def mode(text: str | RefreshMode) -> RefreshMode:
    try:
        return RefreshMode(str(text).upper() if not isinstance(text, RefreshMode) else text)
    except ValueError:
        raise InvalidValue(
            f"{text!r} is not a refresh mode", hint="use AUTO, DIFFERENTIAL or FULL"
        ) from None


Reader = Callable[[Any, str, Settings], Any]


def _like_setting(value: str | None, name: str, settings: Settings) -> str:
    """Checked like the setting that is its default."""
    return str(settings[name] if value is None else settings.with_(name, value)[name])


def _policy(value: str | None, name: str, settings: Settings) -> str:
    """A table that says nothing follows the setting at run time."""
    if value is None or str(value).lower() == DEFAULT:
        return DEFAULT
    try:
        return str(settings.with_(name, value)[name])
    except InvalidValue as error:
        error.hint = f"{error.hint or ''}, or {DEFAULT}".removeprefix(", or ")
        raise


def _bound(value: object, name: str, settings: Settings) -> Any:
    """A bound of the cycle that the table is in; None: what the setting says."""
    return None if value is None else settings.with_(name, value)[name]


def _yes_or_no(value: object, name: str, settings: Settings) -> bool:
    try:
        return bool(BOOLEAN.read(value))
    except InvalidValue as error:
        raise InvalidValue(f"option {name}: {error.message}", hint="use true or false") from None


READERS: Mapping[str, Reader] = {
    "schedule": lambda value, *_: Schedule.parse(value).text,
    "refresh_mode": lambda value, *_: mode(value),
    "initialize": _yes_or_no,
    "diamond_consistency": _like_setting,
    "diamond_schedule_policy": _policy,
    "cluster": lambda value, *_: value,
    **dict.fromkeys(BOUNDS, _bound),
}
