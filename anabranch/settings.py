"""All settings, in one table: the fields of `Settings`.

A value comes from the nearest of: an argument of the call, `SET`, arguments of `connect`, the
environment, `anabranch.toml`, the default.  A setting `spark.master` is the field `spark_master`,
the variable `ANABRANCH_SPARK_MASTER` and the key `master` of the table `[spark]` in the file.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anabranch.places as places
import anabranch.redaction as redaction
import anabranch.trust as trust
import anabranch.values as values
from anabranch.errors import InvalidValue, Refused, UnknownName

PREFIX = "ANABRANCH_"
FILE = "anabranch.toml"
NOT_SETTINGS = ("profiles", "variables")  # tables of the file that are the project's
PROJECT_NAME = "name"  # of the project, at the top of the file
TABLES = {"spark_conf": "spark.conf", "catalogs": "catalogs"}  # settings that hold settings
_OF_FILE = ("profile", "file")  # the layers of a settings file, the nearest first


def cores() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Setting:
    """A row of the table; a setting that is `fixed` cannot be changed by SET, and one that is the
    `operator`'s cannot be set by a file."""

    name: str
    kind: values.Kind
    default: str
    meaning: str
    fixed: bool
    operator: bool = False

    @property
    def key(self) -> str:
        return self.name.replace(".", "_")

    @property
    def variable(self) -> str:
        return PREFIX + self.key.upper()

    def read(self, value: object) -> Any:
        try:
            return self.kind.read(value)
        except InvalidValue as error:
            raise InvalidValue(
                f"setting {self.name}: {error.message}",
                hint=f"a valid value is {self.kind.example}",
            ) from None


def row(
    name: str,
    kind: values.Kind,
    default: str,
    meaning: str,
    *,
    start: Any = None,
    fixed: bool = False,
    operator: bool = False,
) -> Any:
    """`default` is the text for people and, unless `start` is given, also what is read."""
    setting = Setting(name, kind, default, meaning, fixed, operator)
    first = start if start is not None else lambda: setting.read(default)
    return field(default_factory=first, metadata={"setting": setting}, hash=False)


@dataclass(frozen=True, repr=False)
class Settings(Mapping[str, Any]):
    """Immutable; also a mapping from dotted name to value, with one entry per Spark property.

    References to secrets are followed here, once, and what they lead to is never shown.
    """

    home: str = row(
        "home",
        values.FOLDER,
        ".anabranch",
        "Folder of the SQLite catalog and the warehouse, unless these are given.",
        fixed=True,
    )
    catalog: str = row(
        "catalog",
        values.CATALOG,
        "`catalog.db` in `home`",
        "Where the catalog is: `sqlite:///path` or `postgresql://user:password@host/database`.",
        start=str,
        fixed=True,
    )
    warehouse: str = row(
        "warehouse",
        values.FOLDER,
        "`warehouse` in `home`",
        "Where data files are: a folder or a URL that Spark and PyIceberg both reach.",
        start=str,
        fixed=True,
    )
    profile: str = row(
        "profile",
        values.PROFILE,
        "dev",
        "The profile of the project: `[profiles.<name>]` in the file holds its settings and variables.",
        fixed=True,
    )
    spark_master: str = row(
        "spark.master",
        values.MASTER,
        "local[*]",
        "The Spark master to run on.",
        fixed=True,
    )
    spark_remote: str = row(
        "spark.remote",
        values.REMOTE,
        "none",
        "Address of a Spark Connect server, used instead of `spark.master`.",
        start=str,
        fixed=True,
    )
    spark_conf: Mapping[str, str] = row(
        "spark.conf",
        values.PAIRS,
        "none",
        "Properties for the Spark session: `spark.conf.<property>`, a table in the file, or "
        "`name=value;name=value` in the environment.",
        start=dict,
        fixed=True,
    )
    catalogs: Mapping[str, str] = row(
        "catalogs",
        values.PAIRS,
        "none",
        "External catalogs to attach: a table `[catalogs.<name>]` in the file with `type` and the "
        "properties of ATTACH CATALOG. Secrets in it are references, such as `ENV('PROD_TOKEN')`.",
        start=dict,
        fixed=True,
    )
    catalog_timeout: float = row(
        "catalog_timeout",
        values.INTERVAL,
        "5s",
        "How long an attached catalog may take to answer before its tables stay at their last "
        "observed versions.",
        fixed=True,
    )
    tick_interval: float = row(
        "tick_interval", values.INTERVAL, "1s", "Time between two passes of the scheduler."
    )
    diamond_consistency: str = row(
        "diamond_consistency",
        values.choice("atomic", "none"),
        "atomic",
        "Whether the tables of a diamond are published together; a stream table can override it.",
    )
    diamond_schedule_policy: str = row(
        "diamond_schedule_policy",
        values.choice("fastest", "slowest"),
        "fastest",
        "Which member's schedule a consistency group follows.",
    )
    tick_watermark_enabled: bool = row(
        "tick_watermark_enabled",
        values.BOOLEAN,
        "true",
        "Whether a tick reads nothing newer than the cut it started from.",
    )
    allow_circular: bool = row(
        "allow_circular",
        values.BOOLEAN,
        "false",
        "Whether stream tables may depend on each other in a cycle.",
    )
    max_fixpoint_iterations: int = row(
        "max_fixpoint_iterations",
        values.INTEGER,
        "100",
        "Rounds after which the search for a fixed point is given up; rounds that remove rows are "
        "counted separately. A stream table can override it for its cycle or recursion.",
    )
    max_fixpoint_rows: int = row(
        "max_fixpoint_rows",
        values.COUNT,
        "0",
        "Rows that the rounds of one refresh of a cycle, or of WITH RECURSIVE … UNION, may add and "
        "remove; 0: no limit. A stream table can override it for its cycle or recursion.",
    )
    max_fixpoint_time: float = row(
        "max_fixpoint_time",
        values.DURATION,
        "0s",
        "Time after which a refresh of a cycle, or of WITH RECURSIVE … UNION, is given up, also in the "
        "middle of a round; 0s: no limit. A stream table can override it for its cycle or recursion.",
    )
    max_consecutive_errors: int = row(
        "max_consecutive_errors",
        values.INTEGER,
        "3",
        "Failed refreshes in a row after which a stream table is suspended.",
    )
    full_refresh_threshold: float | None = row(
        "full_refresh_threshold",
        values.BOUND,
        "none",
        "Share of changed source rows above which AUTO recomputes, whatever the predicted cost.",
    )
    parallelism: int = row(
        "parallelism",
        values.INTEGER,
        "number of cores",
        "Number of tables that are refreshed in parallel.",
        start=cores,
    )
    lease_time: float = row(
        "lease_time",
        values.INTERVAL,
        "30s",
        "How long a process that stopped responding keeps others from refreshing its tables.",
    )
    small_table_rows: int = row(
        "small_table_rows",
        values.COUNT,
        "100000",
        "Rows up to which a changed table is rewritten (copy-on-write); in larger ones removed rows "
        "are marked by position deletes (merge-on-read).",
    )
    history_retention: float = row(
        "history_retention", values.DURATION, "30d", "How long refresh history is kept."
    )
    snapshot_retention: float = row(
        "snapshot_retention",
        values.DURATION,
        "7d",
        "How long old cuts and snapshots stay readable. Upkeep thins them out: of the oldest, "
        "one per hour is kept. What a stream table depends on stays longer.",
    )
    keep_all_cuts: float = row(
        "keep_all_cuts",
        values.DURATION,
        "1h",
        "How long every single cut stays readable; then one per minute is kept.",
    )
    keep_minute_cuts: float = row(
        "keep_minute_cuts",
        values.DURATION,
        "1d",
        "How long one cut per minute stays readable; then one per hour is kept.",
    )
    upkeep_interval: float = row(
        "upkeep_interval",
        values.INTERVAL,
        "1min",
        "How often the scheduler does a share of the upkeep, in the background of its ticks.",
    )
    orphan_grace: float = row(
        "orphan_grace",
        values.DURATION,
        "1d",
        "How old a file that nothing refers to must be before upkeep deletes it. Files of other "
        "programs are kept for at least three days. Superseded metadata files of a table are deleted "
        "earlier, by later writes to the table, except for the last ten.",
    )
    fsync: bool = row(
        "fsync",
        values.BOOLEAN,
        "true",
        "Whether files and the SQLite catalog are synced to disk before a write is acknowledged. "
        "Without it a power cut may leave tables unreadable; only for data that may be lost.",
        fixed=True,
    )
    allow_external_code: bool = row(
        "allow_external_code",
        values.BOOLEAN,
        "false",
        "Whether SQL may run code and read files of the machine (`java_method`, `TRANSFORM … USING`, "
        "functions that Anabranch does not know), and whether a file may set properties of Spark that "
        "start code. Only an argument of `connect` or the environment can set it.",
        fixed=True,
        operator=True,
    )
    cluster_hosts: tuple[str, ...] = row(
        "cluster_hosts",
        values.HOSTS,
        "none",
        "Spark Connect servers that `CREATE CLUSTER … ADDRESS` may name, besides that of "
        "`spark.remote`: `host` or `host:port`, separated by `;`. Work is sent there, with "
        "`spark.conf` and what the cluster refers to. Only an argument of `connect` or the "
        "environment can set it.",
        start=tuple,
        fixed=True,
        operator=True,
    )
    serve_pin_idle: float = row(
        "serve.pin_idle",
        values.INTERVAL,
        "1h",
        "How long `anabranch serve` keeps a cut readable after the last client request for it.",
    )
    serve_max_body: int = row(
        "serve.max_body",
        values.INTEGER,
        "33554432",
        "The longest request that `anabranch serve` takes, in bytes.",
    )
    serve_concurrency: int = row(
        "serve.concurrency",
        values.INTEGER,
        "12",
        "Requests that `anabranch serve` works on at a time; others wait for their turn.",
    )
    serve_timeout: float = row(
        "serve.timeout",
        values.INTERVAL,
        "30s",
        "How long `anabranch serve` waits for the rest of a request, or lets one wait for its turn.",
    )
    serve_expire_snapshots: bool = row(
        "serve.expire_snapshots",
        values.BOOLEAN,
        "false",
        "Whether clients of `anabranch serve` may expire snapshots that recorded cuts show, and so "
        "make those cuts unreadable. Cuts that are held, and what stream tables depend on, stay.",
    )
    serve_client_config: Mapping[str, str] = row(
        "serve.client_config",
        values.PAIRS,
        "none",
        "Properties with which clients of `anabranch serve` reach the files: `name=value;name=value`, "
        "as in `s3.endpoint=https://store:9000;s3.session-token=ENV('S3_TOKEN')`. They are sent to "
        "every client that may read a table.",
        start=dict,
        fixed=True,
        operator=True,
    )
    verbose: bool = row(
        "verbose", values.BOOLEAN, "false", "Whether Spark's own log and tracebacks are shown."
    )
    origins: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        for key in ("catalog", "spark_remote"):
            found = values.resolved(getattr(self, key), address=True)
            redaction.remember_all(found)
            object.__setattr__(self, key, found)
        conf = {name: values.resolved(value) for name, value in self.spark_conf.items()}
        for name, value in conf.items():
            if redaction.is_secret(name):
                redaction.remember(value)
            redaction.remember_all(value)
        object.__setattr__(self, "spark_conf", conf)
        told = {name: values.resolved(value) for name, value in self.serve_client_config.items()}
        object.__setattr__(self, "serve_client_config", told)

    def __repr__(self) -> str:
        said = ", ".join(f"{each['name']}={each['value']!r}" for each in self.rows())
        return f"Settings({said})"

    @classmethod
    def load(
        cls, place: object = None, found: Path | None = None, /, **overrides: object
    ) -> Settings:
        """Settings for `connect(place)`: a folder, a catalog URL, a settings file or a mapping.

        A file that is named so is trusted, one that was `found` in a folder as far as `trust` says.
        """
        if isinstance(place, Settings):
            return dataclasses.replace(place, **keyed(overrides))
        given, file = places.argument(place)
        named_file = file
        file = file or found or places.find_file(Path.cwd(), FILE)
        layers = [
            ("argument", keyed({**given, **overrides})),
            ("environment", environment(os.environ)),
            ("file", from_file(file)),
        ]
        named = (layer["profile"] for _, layer in layers if "profile" in layer)
        layers.insert(2, ("profile", of_profile(file, next(named, cls().profile))))
        chosen = dict[str, Any]()
        origins = dict[str, str]()
        for origin, layer in reversed(layers):
            for key, value in layer.items():
                if key in TABLES:
                    value = {**chosen.get(key, {}), **value}
                chosen[key], origins[key] = value, origin
        if not chosen.get("allow_external_code"):
            for name in ("file", "profile"):
                refuse_code_in_file(file, dict(layers)[name].get("spark_conf", {}))
        chosen |= places.resolve([layer for _, layer in layers], cls().home)
        if file is not None and named_file is None and not chosen.get("allow_external_code"):
            trust.check(file, in_effect(layers), defaults(), chosen["catalog"])
        return cls(**chosen, origins=origins)

    @property
    def has_home(self) -> bool:
        """Whether the catalog is the one in the home folder, not one of its own address."""
        return self.catalog == places.catalog_in(Path(self.home))

    def create_home(self) -> None:
        """Make the home folder, if the catalog lies there."""
        if self.has_home:
            places.create_folder(Path(self.home), fsync=self.fsync)

    def with_(self, name: str, value: object) -> Settings:
        """The same settings with one changed, as SET does."""
        key, read = one(name, value)
        if TABLE[key].fixed:
            raise InvalidValue(
                f"setting {name} cannot be changed once connected",
                hint=f"give it to connect(), in {FILE} or as {TABLE[key].variable}",
            )
        origins = {**self.origins, key: "SET"}
        return dataclasses.replace(self, **{key: read}, origins=origins)

    def rows(self) -> list[dict[str, str]]:
        """What is set, and by whom: the listing of settings."""
        return [
            {
                "name": setting.name,
                "value": setting.kind.show(getattr(self, key)),
                "origin": self.origins.get(key, "default"),
                "default": setting.default.replace("`", ""),
                "meaning": setting.meaning.replace("`", ""),
            }
            for key, setting in TABLE.items()
        ]

    def __getitem__(self, name: str) -> Any:
        key = name.replace(".", "_")
        for kept, table in TABLES.items():
            rest = name.removeprefix(f"{table}.")
            if rest != name and rest in getattr(self, kept):
                return getattr(self, kept)[rest]
        if key in TABLE:
            return getattr(self, key)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        yield from (setting.name for key, setting in TABLE.items() if key not in TABLES)
        yield from (
            f"{table}.{name}" for key, table in TABLES.items() for name in getattr(self, key)
        )

    def __len__(self) -> int:
        return len(list(iter(self)))


TABLE: dict[str, Setting] = {
    each.name: each.metadata["setting"]
    for each in dataclasses.fields(Settings)
    if "setting" in each.metadata
}


def defaults() -> dict[str, Any]:
    made = Settings()
    return {key: getattr(made, key) for key in TABLE}


def in_effect(layers: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """What a file and its profile say that no argument and no variable overrules."""
    nearer = {key for name, layer in layers if name not in _OF_FILE for key in layer}
    places_given = {"home", "catalog"} & nearer
    hidden = nearer - TABLES.keys() | ({"home", "catalog"} if places_given else set())
    if "home" in nearer:
        hidden.add("warehouse")
    said = dict[str, Any]()
    for name in _OF_FILE[::-1]:
        for key, value in dict(layers)[name].items():
            if key not in hidden:
                said[key] = {**said.get(key, {}), **value} if key in TABLES else value
    return said


def one(name: str, value: object) -> tuple[str, Any]:
    """A setting's key and its value, read: `anabranch.` before the name may be left out."""
    plain = name.removeprefix("anabranch.")
    for key, table in TABLES.items():
        if plain.startswith(f"{table}."):
            return key, {plain.removeprefix(f"{table}."): values.spark_text(value)}
    key = plain.lower().replace(".", "_").replace("-", "_")
    if key not in TABLE:
        known = [setting.name for setting in TABLE.values()]
        raise UnknownName(f"there is no setting {name!r}", name=plain, known=known)
    return key, TABLE[key].read(value)


def keyed(given: Mapping[str, object]) -> dict[str, Any]:
    """A layer: values by key, read; tables such as [spark] may be nested."""
    layer = dict[str, Any]()
    for name, value in flat(given).items():
        key, read = one(name, value)
        layer[key] = {**layer.get(key, {}), **read} if key in TABLES else read
    return layer


def flat(given: Mapping[str, object], before: str = "") -> dict[str, object]:
    names = dict[str, object]()
    for name, value in given.items():
        if not isinstance(name, str):
            raise InvalidValue(f"{name!r} is not the name of a setting", hint="names are texts")
        full = before + name
        if isinstance(value, Mapping) and full.replace("_", ".") not in TABLES.values():
            names |= flat(value, f"{full}.")
        else:
            names[full] = value
    return names


def environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Known variables; one nearly like them is an error, others with our prefix are not ours.

    (A container platform sets variables such as ANABRANCH_PORT for a service of that name.)
    """
    layer = dict[str, Any]()
    for variable in (each for each in variables if each.startswith(PREFIX)):
        key = variable.removeprefix(PREFIX).lower()
        if key in TABLE:
            layer[key] = TABLE[key].read(variables[variable])
        elif near := difflib.get_close_matches(key, TABLE, n=1, cutoff=0.8):
            raise UnknownName(
                f"environment variable {variable} is not a setting",
                name=variable,
                known=[TABLE[near[0]].variable],
            )
    return layer


def from_file(path: Path | None) -> dict[str, Any]:
    """The settings in a file; its relative folders start from the file's own folder."""
    return _read(path, lambda text: {k: v for k, v in text.items() if k != PROJECT_NAME})


def of_profile(path: Path | None, profile: str) -> dict[str, Any]:
    """The settings that a file keeps for one profile."""

    def chosen(text: Mapping[str, Any]) -> Mapping[str, Any]:
        profiles = text.get("profiles", {})
        found = profiles.get(profile, {}) if isinstance(profiles, Mapping) else {}
        return found if isinstance(found, Mapping) else {}

    return _read(path, chosen)


# Properties of Spark that name code to run, programs to start or classes to load.
_STARTS_CODE = re.compile(
    r"jars|packages|ivy|repositories|py-?files|archives|class-?path|java-?options|library-?path"
    r"|plugin|listener|extension|\.catalog\b|serializer|kryo|python|Env\.|\.impl\b|\.class\b"
    r"|filters|manager|codec|script|command|submit|metrics\.|provider|spark\.files|yarn|kubernetes"
    r"|resource.*(?:discovery|vendor)|launcher|agent",
    re.IGNORECASE,
)


def refuse_code_in_file(path: Path | None, conf: Mapping[str, str]) -> None:
    """A settings file comes with a project, and a project may be a stranger's."""
    for name in sorted(conf):
        if _STARTS_CODE.search(name):
            raise Refused(
                f"{path}: the Spark property {name} may start code, which a file must not do",
                hint=f"give it to connect(), as {PREFIX}SPARK_CONF, or allow it with "
                f"{PREFIX}ALLOW_EXTERNAL_CODE=true",
            )


def _read(
    path: Path | None, part: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = part(places.read_toml(path))
        layer = keyed({name: each for name, each in found.items() if name not in NOT_SETTINGS})
    except (InvalidValue, UnknownName) as error:
        error.args = (f"{path}: {error.message}",)
        error.message = f"{path}: {error.message}"
        raise
    for key in layer:
        if TABLE[key].operator:
            raise Refused(
                f"{path}: {key} is for the operator to set, not for a file",
                hint=f"give it to connect(), or as {TABLE[key].variable}",
            )
    for key in ("home", "warehouse", "catalog"):
        if key in layer:
            layer[key] = places.relative_to(path.parent, layer[key])
    return layer
