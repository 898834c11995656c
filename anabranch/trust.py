"""What a settings file may decide by itself, and for what somebody has to trust it.

A file is found because it lies in a folder that somebody works in, perhaps a clone of a stranger's
project.  By itself it decides everything about a catalog that it names itself, or that lies below its
folder: there is nothing in it that the file's author could not have put there.  About a catalog that
the operator names, as an argument or in the environment, it decides only how much and how fast is
computed.  What sends work or rows of such a catalog elsewhere, or forgets more of it than the defaults
do, and whatever refers to a secret, needs the operator's word, which is given for a file as it is:

    `anabranch trust`        notes the file and its checksum, so a changed one has to be trusted again
    ANABRANCH_TRUST          names files and folders, for machines that nobody types at
    connect("path/to.toml")  names the file in a program

and so does a file of root's that this user cannot write.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anabranch.places as places
from anabranch.errors import InvalidValue, Refused, Unreachable
from anabranch.redaction import holds_reference

VARIABLE = "ANABRANCH_TRUST"
# Properties of Spark that say how much is computed at a time, and nothing else.
_TUNING = re.compile(
    r"spark\.(?:app\.name|cores\.max|default\.parallelism|task\.(?:cpus|maxFailures)"
    r"|driver\.(?:cores|memory|memoryOverhead|memoryOverheadFactor|maxResultSize)"
    r"|executor\.(?:cores|instances|memory|memoryOverhead|memoryOverheadFactor|heartbeatInterval)"
    r"|memory\.(?:fraction|storageFraction|offHeap\.enabled|offHeap\.size)"
    r"|dynamicAllocation\.\w+(?:\.enabled)?|speculation(?:\.\w+)*|locality\.wait(?:\.\w+)?"
    r"|network\.timeout|rpc\.askTimeout|scheduler\.mode|ui\.(?:enabled|showConsoleProgress)"
    r"|(?:shuffle|broadcast|rdd)\.(?:spill\.)?compress|broadcast\.blockSize"
    r"|sql\.(?:shuffle\.partitions|adaptive\.[\w.]+|autoBroadcastJoinThreshold|broadcastTimeout"
    r"|ansi\.enabled|session\.timeZone|caseSensitive|codegen\.wholeStage|cbo\.[\w.]+"
    r"|files\.(?:maxPartitionBytes|minPartitionNum|maxPartitionNum|openCostInBytes|maxRecordsPerFile)"
    r"|parquet\.(?:filterPushdown|enableVectorizedReader|columnarReaderBatchSize)"
    r"|inMemoryColumnarStorage\.(?:compressed|batchSize)|join\.preferSortMergeJoin"
    r"|optimizer\.(?:runtime\.bloomFilter\.[\w.]+|dynamicPartitionPruning\.enabled)"
    r"|execution\.arrow\.(?:maxRecordsPerBatch|pyspark\.enabled)))\Z"
)
_PLACES = ("home", "catalog")  # a file that sets one of them says which catalog it is about
_LOCAL = re.compile(r"local(?:\[[\d*, ]+\])?\Z")

Rule = Callable[[Any, Any, Path], str | None]  # value, default, folder of the file: why not


def _anything(value: Any, default: Any, folder: Path) -> str | None:
    return None


def _below(value: Any, default: Any, folder: Path) -> str | None:
    """A catalog or folder below the file's own; links are followed."""
    path = places.local_part(str(value))
    if path is not None and Path(path).resolve().is_relative_to(folder.resolve()):
        return None
    return f"is outside {folder}"


def _not_less(value: Any, default: Any, folder: Path) -> str | None:
    """How long something is kept, in a catalog that is not the file's own."""
    return None if value >= default else "keeps less than the default in a catalog elsewhere"


def _local(value: Any, default: Any, folder: Path) -> str | None:
    return None if _LOCAL.match(value) else "sends work to another machine"


def _remote(value: Any, default: Any, folder: Path) -> str | None:
    return "sends work to another machine" if value else None


def _durable(value: Any, default: Any, folder: Path) -> str | None:
    return None if value else "lets a power cut lose what was acknowledged"


def _attaching(value: Any, default: Any, folder: Path) -> str | None:
    return "attaches external catalogs" if value else None


def _strict(value: Any, default: Any, folder: Path) -> str | None:
    return "lets clients of the server make recorded cuts unreadable" if value else None


def _tuning(value: Any, default: Any, folder: Path) -> str | None:
    odd = sorted(name for name in value if not _TUNING.match(name))
    return f"sets more than the use of resources: {', '.join(odd)}" if odd else None


# Every setting has a rule, or the file cannot set it at all.
RULES: Mapping[str, Rule] = {
    "home": _below,
    "catalog": _below,
    "warehouse": _below,
    "spark_master": _local,
    "spark_remote": _remote,
    "spark_conf": _tuning,
    "catalogs": _attaching,
    "fsync": _durable,
    "history_retention": _not_less,
    "snapshot_retention": _not_less,
    "keep_all_cuts": _not_less,
    "keep_minute_cuts": _not_less,
    "orphan_grace": _not_less,
    "serve_expire_snapshots": _strict,
    **dict.fromkeys(
        (
            "profile", "tick_interval", "diamond_consistency", "diamond_schedule_policy",
            "tick_watermark_enabled", "allow_circular", "max_fixpoint_iterations",
            "max_fixpoint_rows", "max_fixpoint_time", "max_consecutive_errors",
            "full_refresh_threshold", "parallelism", "lease_time", "small_table_rows",
            "upkeep_interval", "verbose", "catalog_timeout", "serve_pin_idle", "serve_max_body",
            "serve_concurrency", "serve_timeout",
        ),
        _anything,
    ),
}  # fmt: skip


def check(file: Path, given: Mapping[str, Any], defaults: Mapping[str, Any], catalog: str) -> None:
    """Refuse settings of a file for which it is not trusted; `given` are those that take effect."""
    own = not given.keys().isdisjoint(_PLACES) or _below(catalog, None, file.parent) is None
    reasons = [*_secrets(given)] if own else needs(file, given, defaults)
    if reasons and not is_trusted(file):
        raise Refused(
            f"{file} is not trusted to decide: {'; '.join(reasons)}",
            hint=f"read it, then `anabranch trust {file}`, or set {VARIABLE}={file}; or give these "
            "settings to connect() or in the environment",
        )


def needs(file: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """For what a file has to be trusted."""
    return list(_reasons(file, given, defaults))


def _reasons(file: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        if reason := RULES[key](value, defaults.get(key), file.parent):
            yield f"{_shown(key)} {reason}"
    yield from _secrets(given)


def _secrets(given: Mapping[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        texts = value.values() if isinstance(value, Mapping) else (value,)
        if any(isinstance(text, str) and holds_reference(text) for text in texts):
            yield f"{_shown(key)} refers to a secret"


def _shown(key: str) -> str:
    return key.replace("_", ".", key.startswith("spark_"))


def is_trusted(file: Path) -> bool:
    """Whether the operator has said so, of the file as it is now."""
    return _is_roots(file) or _is_named(file) or _noted().get(str(file.resolve())) == _sum(file)


def trust(file: Path) -> None:
    _note({**_noted(), str(file.resolve()): _sum(file)})


def distrust(file: Path) -> bool:
    """False if it was not trusted."""
    noted = _noted()
    found = noted.pop(str(file.resolve()), None)
    if found is not None:
        _note(noted)
    return found is not None


def _is_roots(file: Path) -> bool:
    """An administrator's, where we are none."""
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        return False
    return all(
        path.stat().st_uid == 0 and not os.access(path, os.W_OK) for path in (file, file.parent)
    )


def _is_named(file: Path) -> bool:
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    folders = [Path(os.path.expanduser(each)) for each in named if each]  # noqa: PTH111 never fails
    own = file.resolve()
    return any(each.is_absolute() and own.is_relative_to(each.resolve()) for each in folders)


def _sum(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidValue(f"{file} cannot be read: {error.strerror or error}") from None


def _store() -> Path | None:
    try:
        folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    except RuntimeError:  # a user without a home
        return None
    return Path(folder) / "anabranch" / "trusted.json" if Path(folder).is_absolute() else None


def _noted() -> dict[str, str]:
    path = _store()
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _note(noted: Mapping[str, str]) -> None:
    path = _store()
    if path is None:
        raise Unreachable(
            "this user has no home to note it in", hint=f"set HOME, or name the file in {VARIABLE}"
        )
    places.create_folder(path.parent, fsync=False)
    try:
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.touch(mode=0o600)
        new.write_text(json.dumps(noted, indent=1), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise Unreachable(
            f"{path} cannot be written: {error.strerror or error}",
            hint=f"name the file in {VARIABLE}",
        ) from None
