"""Flipped bits, on real Spark: a read gives the right rows, or `FileDamaged` with the file's name.

    pages       of data, delete and delta files: Parquet's own checksums, which Spark verifies
    footers     of the same files: compared before Spark reads them
    metadata    manifests, manifest lists and metadata files

Each kind of verification is also switched off: then a bit must flip in silence, or nothing would
have been tested.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch
from anabranch import Anabranch, cache
from anabranch.errors import AnabranchError, BaseExpired, FileDamaged
from anabranch.lake.footers import tail_of
from anabranch.names import TableName
from anabranch.spark import scan, write
from anabranch.spark.errors import translated
from anabranch.spark.session import Spark
from tests.e2e.world import Bag, bag

TABLES: dict[str, Callable[[Anabranch], Any]] = {  # each read in its own way
    "s.t": lambda ab: ab.sql("SELECT * FROM s.t"),
    "s.sums": lambda ab: ab.table("s.sums"),
    "s.few": lambda ab: ab.table("s.few", "v >= 0"),
}
SUMS = "SELECT g, COUNT(*) AS n, SUM(v) AS v, MAX(name) AS name FROM s.t GROUP BY g"
ROWS = """SELECT id, CAST(id % 7 AS INT) AS g, id * 3 AS v, CONCAT('n', id) AS name,
CAST(id AS DOUBLE) / 4 AS x, CAST(id AS DECIMAL(20, 2)) AS d, DATE'2024-01-01' + CAST(id AS INT) AS day,
id % 2 = 0 AS even, ARRAY(id, id + 1) AS two FROM range(60)"""


@dataclass(frozen=True)
class Place:
    """A bit of a file, and a table whose newest rows need the file."""

    table: str
    path: Path
    bit: int


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark: Spark) -> Path:
    found = tmp_path_factory.mktemp("rot")
    with anabranch.connect(found, spark=spark.session) as ab:
        fill(ab)
    return found


@pytest.fixture
def ab(home: Path, spark: Spark) -> Iterator[Anabranch]:
    with anabranch.connect(home, spark=spark.session) as opened:
        yield opened


def fill(ab: Anabranch) -> None:
    """Data files, files of position deletes and delta files, all from the public interface."""
    ab.sql(f"CREATE TABLE s.t AS {ROWS}")
    ab.create_stream_table("s.sums", SUMS, refresh_mode="DIFFERENTIAL", schedule=None)
    few = "SELECT id, name, v FROM s.t WHERE v % 2 = 0"
    ab.create_stream_table("s.few", few, refresh_mode="DIFFERENTIAL", schedule=None)
    ab.sql("DELETE FROM s.t WHERE id = 3 OR id = 8")
    ab.refresh()
    ab.sql("UPDATE s.t SET name = 'other' WHERE id = 12")


def shown(ab: Anabranch, table: str) -> Bag[tuple[object, ...]]:
    """As a process reads it that has read nothing yet."""
    cache.clear()
    return bag(TABLES[table](ab))


@contextmanager
def flipped(path: Path, bits: Iterable[int]) -> Iterator[None]:
    """Inside, some bits of a file are others."""
    before = path.read_bytes()
    data = bytearray(before)
    for bit in bits:
        data[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)
        cache.clear()


def silent(ab: Anabranch, places: Iterable[Place]) -> tuple[list[Place], int]:
    """Where a flipped bit gave other rows and no error, and how many were noticed."""
    right = {table: shown(ab, table) for table in TABLES}
    wrong, noticed = [], 0
    for place in places:
        with flipped(place.path, [place.bit]):
            try:
                with translated():  # frames are Spark's: what they raise when collected is too
                    if shown(ab, place.table) != right[place.table]:
                        wrong.append(place)
            except AnabranchError as error:
                noticed += 1
                assert type(error) is FileDamaged, (place, repr(error))
                assert place.path.name in str(error) and error.hint, (place, str(error))
    assert {table: shown(ab, table) for table in TABLES} == right
    return wrong, noticed


def plain(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def parquet_files(ab: Anabranch) -> Iterator[tuple[str, Path, int]]:
    """The newest versions' files: table, path, and where the last page ends."""
    for table in TABLES:
        version = ab._runtime.lake.current(TableName.parse(table))
        state = version.state(version.snapshot_id)
        for entry in (*state.data, *state.deletes.entries):
            path, tail = plain(entry.data_file.file_path), tail_of(entry.data_file)
            assert tail is not None
            yield table, path, path.stat().st_size - (tail >> 32)


def metadata_files(ab: Anabranch) -> Iterator[tuple[str, Path]]:
    for table in TABLES:
        version = ab._runtime.lake.current(TableName.parse(table))
        snapshot = version.find_snapshot(version.snapshot_id)
        assert snapshot is not None
        yield table, plain(version.location)
        yield table, plain(snapshot.manifest_list)
        for manifest in snapshot.manifests(version.io):
            yield table, plain(manifest.manifest_path)


def bits(table: str, path: Path, first: int, end: int, count: int) -> list[Place]:
    """Some bits between two bytes, always the same ones for a table."""
    chosen = random.Random(f"{table} {count}")
    return [Place(table, path, chosen.randrange(8 * first, 8 * end)) for _ in range(count)]


def in_pages(ab: Anabranch) -> list[Place]:
    """Some anywhere, and some in the header of the first page, which no checksum covers."""
    return [
        place
        for table, path, end in parquet_files(ab)
        for place in (*bits(table, path, 4, end, 7), *bits(table, path, 4, 28, 3))
    ]


SOME = pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.extended)])


@SOME
def test_a_bit_of_a_page(ab: Anabranch, step: int) -> None:
    kinds = {path.parent.name for _, path, _ in parquet_files(ab)}
    assert len([*parquet_files(ab)]) >= 5, kinds
    wrong, noticed = silent(ab, in_pages(ab)[::step])
    assert not wrong and noticed >= 8


@SOME
def test_a_bit_of_a_footer(ab: Anabranch, step: int) -> None:
    places = [
        place
        for table, path, end in parquet_files(ab)
        for place in bits(table, path, end, path.stat().st_size, 4)
    ][::step]
    wrong, noticed = silent(ab, [*places, *other_columns(ab)[::step]])
    assert not wrong and noticed >= len(places)


@SOME
def test_a_bit_of_metadata(ab: Anabranch, step: int) -> None:
    places = [
        place
        for table, path in metadata_files(ab)
        for place in bits(table, path, 0, path.stat().st_size, 3)
    ][::step]
    wrong, noticed = silent(ab, places)
    assert not wrong and noticed > len(places) // 2


def other_columns(ab: Anabranch) -> list[Place]:
    """Bits that make a footer tell of other columns or fewer rows, and still be a footer."""
    found: list[Place] = []
    for table, path, end in parquet_files(ab):
        data = path.read_bytes()
        right = _told(data)
        for bit in range(8 * end, 8 * len(data)):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << (bit % 8)
            if (told := _told(bytes(changed))) is not None and told != right:
                found.append(Place(table, path, bit))
    return random.Random(1).sample(found, min(len(found), 10))


def _told(data: bytes) -> object:
    try:
        opened = pq.ParquetFile(io.BytesIO(data))
        fields = [(each.name, (each.metadata or {}).items()) for each in opened.schema_arrow]
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    return [(name, sorted(told)) for name, told in fields], opened.metadata.num_rows


# -- what the tests above would miss, if they could miss anything -------------------------------


def test_pages_that_are_not_verified_are_wrong_in_silence(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scan.READ_OPTIONS, "parquet.page.verify-checksum.enabled", "false")
    assert silent_anywhere(ab, in_pages(ab))


@pytest.mark.extended
def test_pages_without_checksums_are_wrong_in_silence(
    tmp_path: Path, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(write.WRITE_OPTIONS, "parquet.page.write-checksum.enabled", "false")
    with anabranch.connect(tmp_path, spark=spark.session) as ab:
        fill(ab)
        assert silent_anywhere(ab, in_pages(ab))


def test_footers_that_are_not_compared_are_wrong_in_silence(
    ab: Anabranch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "check_tails", lambda reading: None)
    assert silent_anywhere(ab, other_columns(ab))


def silent_anywhere(ab: Anabranch, places: Iterable[Place]) -> bool:
    right = {table: shown(ab, table) for table in TABLES}
    for place in places:
        with flipped(place.path, [place.bit]):
            try:
                if shown(ab, place.table) != right[place.table]:
                    return True
            except Exception:  # of any kind, since nothing guards Spark here
                continue
    return False


# -- delta files, which refreshes read ----------------------------------------------------------


@pytest.mark.extended
def test_a_bit_of_a_delta_file(tmp_path: Path, spark: Spark) -> None:
    """A refresh over it gives what its query gives, or fails and names the file."""
    chosen = random.Random(3)
    with anabranch.connect(tmp_path, spark=spark.session) as ab:
        fill(ab)
        ab.refresh()
        named = rebuilt = 0
        for at in range(6):
            known = parquet_paths(tmp_path)
            ab.sql(f"UPDATE s.t SET v = v + 2, name = 'n{at}' WHERE id IN ({20 + at}, {30 + at})")
            ab.sql(f"DELETE FROM s.t WHERE id = {40 + at}")
            made = sorted(parquet_paths(tmp_path) - known, key=lambda path: path.parent.name)
            path = made[at % len(made)]
            with flipped(path, [chosen.randrange(8 * path.stat().st_size) for _ in range(8)]):
                try:
                    ab.refresh()
                except (FileDamaged, BaseExpired) as error:  # one of now, or of what a source was
                    assert path.name in str(error)
                    named += 1
                    if isinstance(error, BaseExpired):  # the cure that it tells needs no such file
                        ab.refresh("s.few", full=True)
                        rebuilt += ab.history("s.few", 1)[0]["action"] == "FULL"
            ab.refresh()
            for table in ("s.sums", "s.few"):
                assert ab.verify(table)["equal"]
        assert named and rebuilt


def parquet_paths(home: Path) -> set[Path]:
    return {path for path in (home / "warehouse").rglob("*.parquet") if path.is_file()}
