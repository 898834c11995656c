"""The Spark session: started at first use, quiet, and set so that our files are read and written
by field id."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from anabranch.errors import Refused, Unreachable
from anabranch.spark import write
from anabranch.spark.archive import java_option
from anabranch.spark.private import find_once, give_rdds_to, is_running, lighten
from anabranch.values import host_of

# What every session must have; may be set while it runs.
RUNTIME = {
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # What a query means must not depend on who runs it: Spark's own defaults, and UTC.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.variable.substitute": "false",  # `${x}` is text, and no setting is read into rows
    # listing files must never start a job
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.cteRecursionRowLimit": "-1",  # the level limit ends what does not end by itself
}

# They take the columns that EXISTS (…) in a SELECT list looks at for columns of the union below it.
HARMFUL_RULES = tuple(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in ("PushProjectionThroughUnion", "CombineUnions")
)
LEGACY = "spark.sql.legacy."
EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"

# What a session of our own starts with; `spark.conf.*` may say otherwise.
START = {
    "spark.app.name": "anabranch",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1)),
    "spark.sql.catalogImplementation": "in-memory",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.autoBroadcastJoinThreshold": "32MB",
    # each level of nested CTEs takes a round of the analyzer, which stops after 100
    "spark.sql.analyzer.maxIterations": "1000",
    # a refresh has some fifty generated classes: with room for 100 every refresh compiles its own anew
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.log.structuredLogging.enabled": "false",
    # Spark remembers its last jobs and statements, with their plans, also if nobody looks at them
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.ui.retainedDeadExecutors": "10",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.ui.explainMode": "simple",  # Spark writes every plan down, also if nobody looks at it
    # noting the caller of every Python call for error messages costs a third of building a frame
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# In one process every sort, hash table and broadcast takes a page or block, however few rows it holds:
# of 64 and 4 MB by default, so that collecting garbage is a tenth of a small refresh.  A task can have
# 8,192 pages: on machines of a cluster that may be too few.
ONE_PROCESS = {"spark.buffer.pageSize": "4m", "spark.broadcast.blockSize": "1m"}

LOOPBACK = ("localhost", "127.0.0.1", "::1")  # what runs there is the operator's
POOL = "spark.scheduler.pool"
LEVELS = "spark.sql.cteRecursionLevelLimit"  # of WITH RECURSIVE … UNION ALL, which Spark runs
SMALL_ROWS = 1_000_000  # up to here planning again between stages costs more than it saves
ROWS_PER_TASK = 100_000

# Java's options for `expect_little`.
LITTLE = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=256m",  # the default of one compiler is too small for Spark
    "-XX:+UseSerialGC",
    "-XX:NewRatio=1",
    "-XX:MetaspaceSize=256m",  # loading Spark's classes is no reason to collect garbage
)


_ours: WeakSet[SparkSession] = WeakSet()  # sessions that `beside` made


class Spark:
    """Spark, started when `session` is first asked for.

    Settings of a session, such as its time zone, decide what a query means.  Those of a session that
    somebody else sees can change at any time, so rows are computed in one of our own beside it.
    """

    def __init__(self, settings: Mapping[str, Any], session: SparkSession | None = None) -> None:
        self._settings = settings
        self._given = session
        self._session: SparkSession | None = None
        self._shared: SparkSession | None = None
        self._lock = threading.Lock()
        self._sizes: dict[object, tuple[int, bool, int | None]] = {}
        self._untuned: dict[str, str] = {}
        self._jobs_before = write.actions()
        self._others: dict[str, Spark] = {}
        self.on_start: Callable[[str, Mapping[str, Any]], None] = lambda event, facts: None
        self.conf_at_start: Callable[[], Mapping[str, str]] = dict  # asked when Spark starts

    @property
    def started(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> SparkSession:
        """The session in which rows are computed."""
        with self._lock:
            if self._session is None:
                self.on_start("spark_starting", {})
                settings = {**self.conf_at_start(), **self._settings}
                self._shared = self._given or start(settings)
                self.on_start("spark_started", {})
                self._session = self._shared if self.is_shared else beside(self._shared)
                if self._given is None and not is_remote(self._shared):
                    configure(self._session, settings)
                settle(self._session)
                if (levels := settings.get("max_fixpoint_iterations")) is not None:
                    self._session.conf.set(LEVELS, str(levels))
            return self._session

    @property
    def is_shared(self) -> bool:
        """Whether rows are computed in the session that users see.

        Functions of their own are known in that one only.  Frames cannot be carried from one session
        of a Connect server to another.
        """
        shared = self._shared
        assert shared is not None
        return self.allows_external_code or is_remote(shared) or shared in _ours

    @property
    def shared(self) -> SparkSession:
        """The session that users see: theirs, or the one that was started."""
        _ = self.session
        assert self._shared is not None
        return self._shared

    @property
    def allows_external_code(self) -> bool:
        """Whether queries may run code of their own: the operator's word."""
        return str(self._settings.get("allow_external_code", "")).lower() == "true"

    @property
    def time_zone(self) -> str:
        return self.session.conf.get("spark.sql.session.timeZone") or "UTC"

    @property
    def jobs(self) -> int:
        """Write actions since this object was made."""
        return write.actions() - self._jobs_before

    def stop(self) -> None:
        """Stop Spark, unless the session was given: then it is the user's to stop."""
        with self._lock:
            session, self._session, self._shared = self._shared, None, None
            others, self._others = list(self._others.values()), {}
        for other in others:
            other.stop()
        if session is not None and self._given is None:
            with suppress(ConnectionError, EOFError):  # it may be gone already
                session.stop()

    @contextmanager
    def pool(self, name: str) -> Iterator[None]:
        """Run the jobs of this thread in a scheduler pool; a Connect server has pools of its own.

        A Spark that has not started is not started for that.
        """
        reachable = self.started and not self.is_remote
        context = self.session.sparkContext if reachable else None
        before = context.getLocalProperty(POOL) if context else None
        if context:
            context.setLocalProperty(POOL, name)
        try:
            yield
        finally:
            if context:
                context.setLocalProperty(POOL, before)  # type: ignore[arg-type]

    def at(self, address: str, conf: Mapping[str, str]) -> Spark:
        """Another Connect server, driven by the same process; kept until this Spark stops.

        PySpark takes all calls of a process for one kind of session: a server needs that the session
        at hand is on a server too.
        """
        self.check_address(address)
        with self._lock:
            if address not in self._others:
                named = {f"spark.conf.{name}": value for name, value in conf.items()}
                self._others[address] = Spark({**self._settings, **named, "spark.remote": address})
            return self._others[address]

    def check_address(self, address: str) -> None:
        """Refuse a server that the operator has not named: it is sent work, properties and secrets."""
        host, port = host_of(address)
        if not self.is_remote:
            raise Refused(
                f"{host} is a Spark Connect server, and this process runs Spark itself",
                hint="set spark.remote, so that all of them are reached by Connect",
            )
        own = host_of(str(self._settings.get("spark.remote", "")))
        named = self._settings.get("cluster_hosts", ())
        shown = f"[{host}]" if ":" in host else host
        allowed = (host, port) == own or host in LOOPBACK or {shown, f"{shown}:{port}"} & {*named}
        if not host or not allowed:
            raise Refused(
                f"{shown}:{port} is not a Spark Connect server that work may be sent to",
                hint="the operator of this process can allow it: "
                f"ANABRANCH_CLUSTER_HOSTS={shown}:{port}, or cluster_hosts of connect()",
            )

    @property
    def is_remote(self) -> bool:
        return is_remote(self.session)

    @contextmanager
    def tuned(
        self, rows: int, *, adaptive: bool | None = None, levels: int | None = None
    ) -> Iterator[SparkSession]:
        """Plan the work inside for about `rows` rows; a recursion of Spark's may have `levels`.

        Small work is planned once, in few partitions.  `adaptive=True` keeps planning between
        stages, for a plan with parts that may turn out to be needless.  Where work of several
        threads overlaps, the largest decides for all.
        """
        session, key = self.session, object()
        if session not in _ours:
            settle(session)
        wanted = rows > SMALL_ROWS if adaptive is None else adaptive
        with self._lock:
            if not self._sizes:
                names = tuning(0, False, 0)
                self._untuned = {name: session.conf.get(name) or "" for name in names}
            self._sizes[key] = (rows, wanted, levels)
            self._tune(session)
        try:
            yield session
        finally:
            with self._lock:
                del self._sizes[key]
                self._tune(session)

    def _tune(self, session: SparkSession) -> None:
        wanted = self._untuned
        if self._sizes:
            rows, adaptive, levels = zip(*self._sizes.values(), strict=True)
            deepest = max((each for each in levels if each is not None), default=None)
            wanted = wanted | tuning(max(rows), any(adaptive), deepest)
        for name, value in wanted.items():
            session.conf.set(name, value)


def beside(session: SparkSession) -> SparkSession:
    """A session of our own in the same Spark, with the settings that the given one has now."""
    own = session.newSession()
    given = session.conf.getAll.items() - own.conf.getAll.items()
    for name, value in given:
        if not name.startswith(LEGACY):
            with suppress(AnalysisException):  # what holds for all of Spark is the same there
                own.conf.set(name, value)
    give_rdds_to(session)  # the newest session would take what becomes of the user's RDDs
    _ours.add(own)
    return own


def configure(session: SparkSession, settings: Mapping[str, Any]) -> None:
    """What we were told, where the Spark of this process was running before."""
    for name, value in start_conf(settings).getAll():
        if name.startswith("spark.sql.") and session.conf.isModifiable(name):
            session.conf.set(name, value)


def settle(session: SparkSession) -> None:
    """What every session must have, whatever somebody has set.

    Settings that bring the meaning of older versions back have their defaults.
    """
    for name in session.conf.getAll:
        if name.startswith(LEGACY):
            with suppress(AnalysisException):  # set for all of Spark, once
                session.conf.unset(name)
    for name, value in RUNTIME.items():
        session.conf.set(name, value)
    session.conf.set(EXCLUDED_RULES, excluded(session.conf.get(EXCLUDED_RULES, "")))


def is_remote(session: SparkSession) -> bool:
    """Whether a session is on a Connect server: what lies in Java cannot be reached."""
    return "connect" in type(session).__module__


def excluded(given: str | None) -> str:
    """The optimizer rules to leave out: the user's and those that give wrong results."""
    named = [rule.strip() for rule in (given or "").split(",") if rule.strip()]
    return ",".join(dict.fromkeys([*named, *HARMFUL_RULES]))


def tuning(rows: int, adaptive: bool, levels: int | None = None) -> dict[str, str]:
    """The settings for work of a size."""
    cores = os.cpu_count() or 1
    partitions = max(1, min(rows // ROWS_PER_TASK, cores if rows <= SMALL_ROWS else 4 * cores))
    return {
        "spark.sql.adaptive.enabled": str(adaptive).lower(),
        "spark.sql.shuffle.partitions": str(partitions),
        **({} if levels is None else {LEVELS: str(levels)}),
    }


def start(settings: Mapping[str, Any]) -> SparkSession:
    """A new session, or a clear reason why there is none."""
    remote = settings.get("spark.remote")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark warns about versions of pandas that we do not use
        try:
            return connect(str(remote), settings) if remote else launch(settings)
        except Unreachable:
            raise
        except Exception as error:
            place = f" at {remote}" if remote else ""
            raise Unreachable(f"Spark{place} cannot be reached: {_reason(str(error))}") from error


def connect(remote: str, settings: Mapping[str, Any]) -> SparkSession:
    builder = SparkSession.builder.remote(remote)
    for name, value in given_conf(settings).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (ImportError, SystemExit) as error:  # without a main module it exits
        raise Unreachable(
            f"spark.remote needs Spark's Connect client: {_reason(str(error))}",
            hint='pip install "pyspark[connect]"',
        ) from error


def launch(settings: Mapping[str, Any]) -> SparkSession:
    """Spark in this process' own JVM, whose output is kept from the terminal."""
    conf = start_conf(settings)
    if not is_running():
        require_java()
        quiet = not is_verbose(settings)
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = quiet  # they print what is raised anyway
        with tempfile.TemporaryFile() as log:
            context = launch_context(conf, log if quiet else None)
        find_once(context)
        if str(context.master).startswith("local"):
            lighten(context)
    return SparkSession.builder.getOrCreate()


def launch_context(conf: SparkConf, log: IO[bytes] | None) -> SparkContext:
    launch_gateway = import_module("pyspark.java_gateway").launch_gateway  # untyped
    # A session of its own: signals for us, such as Ctrl-C, are not for Spark; it ends with its stdin.
    kept: dict[str, Any] = {"start_new_session": True}
    quiet = kept if log is None else {**kept, "stdout": log, "stderr": log}
    try:
        gateway = launch_gateway(conf=conf, popen_kwargs=quiet)
        return SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        said = ""
        if log is not None:
            log.seek(0)
            said = log.read().decode(errors="replace")
        raise Unreachable(f"Spark did not start: {_start_failure(str(error), said)}") from error


def start_conf(settings: Mapping[str, Any]) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    values = {
        **START,
        **RUNTIME,
        "spark.master": str(settings.get("spark.master") or "local[*]"),
        "spark.driver.memory": default_memory(),
        "spark.sql.warehouse.dir": str(
            Path(tempfile.gettempdir(), f"anabranch-{uuid.uuid4().hex}")
        ),
        **given_conf(settings),
    }
    if values["spark.master"].startswith("local"):
        at_home = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
        values = {**at_home, **ONE_PROCESS, **values}
    values["spark.driver.extraJavaOptions"] = java_options(values, settings)
    conf.setAll(list(values.items()))
    return conf


def java_options(values: Mapping[str, str], settings: Mapping[str, Any]) -> str:
    """The user's Java options, the archive of classes if there is one, and our log settings unless
    the user has some."""
    given = values.get("spark.driver.extraJavaOptions", "")
    given = f"{given} {java_option(given)}".strip()
    if "log4j" in given or is_verbose(settings):
        return given
    file = Path(__file__).with_name("log4j2.properties").as_uri()
    return f"{given} -Dlog4j2.configurationFile={file}".strip()


def is_verbose(settings: Mapping[str, Any]) -> bool:
    return str(settings.get("verbose", "")).lower() in ("true", "1")


def given_conf(settings: Mapping[str, Any]) -> dict[str, str]:
    prefix = "spark.conf."
    return {
        name[len(prefix) :]: str(settings[name]) for name in settings if name.startswith(prefix)
    }


def default_memory() -> str:
    """A quarter of the machine, between 1 and 8 GB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 << 30
    return f"{min(8192, max(1024, total // 4 // (1 << 20)))}m"


def expect_little() -> None:
    """For a process whose Sparks see few rows and end soon, before the first one starts.

    There the JVM's second compiler takes more time than all the queries; without it the same
    queries take less than half of the processor.
    """
    os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(LITTLE))


def require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME={home} has none" if home else "none was found"
        raise Unreachable(f"Spark needs Java and {where}: install Java 17 or newer")


def _start_failure(error: str, said: str) -> str:
    if "UnsupportedClassVersionError" in said or "Unrecognized option: --add-" in said:
        return "it needs Java 17 or newer: install it, or set JAVA_HOME"
    lines = [line.strip() for line in said.splitlines() if "WARN" not in line]
    telling = [line for line in lines if "rror" in line or "xception" in line or "rror:" in line]
    return _reason((telling or lines or [error])[0])


def _reason(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
