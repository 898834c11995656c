"""Flipped bits, in any file: an error, or the right rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, FileDamaged
from anabranch.lake import checksums
from anabranch.lake.footers import tail_of
from anabranch.names import TableName
from anabranch.spark.tails import check_tail, summed
from tests.standin.damage import bits, break_table, flip, flipped, forget, roots
from tests.standin.engine import connect, installed
from tests.standin.foreign import append

TOTALS = "SELECT k, SUM(v) AS v FROM s.t GROUP BY k"
TABLES = ("s.t", "s.d")
FLIPS = 4  # bits of each file


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    with installed():
        with opened(home) as ab:
            ab.sql("CREATE TABLE s.t (k BIGINT, v BIGINT, n STRING)")
            ab.sql("INSERT INTO s.t VALUES (1, 1, 'one'), (2, 20, 'two'), (3, 300, 'three')")
            ab.create_stream_table("s.d", TOTALS, schedule=None, refresh_mode="DIFFERENTIAL")
            ab.sql("DELETE FROM s.t WHERE k = 2")
            ab.sql("INSERT INTO s.t VALUES (1, 4, 'four')")
            ab.refresh()
        yield home


def opened(home: Path) -> Anabranch:
    return connect(home, fsync=False)


def rows(ab: Anabranch) -> dict[str, list[Any]]:
    """As another process would read them."""
    forget()
    ab._runtime.lake._versions._values.clear()
    return {name: sorted(ab.table(name).collect()) for name in TABLES}


def files(home: Path) -> list[Path]:
    return sorted(path for path in (home / "warehouse" / "s").rglob("*") if path.is_file())


def test_no_flipped_bit_gives_other_rows(home: Path) -> None:
    with opened(home) as ab:
        right, chosen, noticed = rows(ab), random.Random(1), 0
        for path in files(home):
            for bit in bits(path, FLIPS, chosen):
                with flipped(path, bit):
                    try:
                        assert rows(ab) == right, f"bit {bit} of {path.name}"
                    except AnabranchError as error:
                        noticed += 1
                        assert error.hint, error
        assert rows(ab) == right
    assert noticed > len(files(home))  # most are of files that the newest versions need


def test_without_page_checksums_bits_flip_in_silence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: it would without the verification."""
    real = pq.read_table
    monkeypatch.setattr(
        pq, "read_table", lambda *a, **k: real(*a, **{**k, "page_checksum_verification": False})
    )
    with opened(home) as ab:
        right, version = rows(ab), ab._runtime.lake.current(TableName.parse("s.t"))
        plain = Path(version.reading().files[0].removeprefix("file://"))
        first = pq.read_metadata(plain).row_group(0).column(0)
        wrong = 0
        for bit in range(first.total_compressed_size * 8):
            with flipped(plain, 8 * (first.dictionary_page_offset or 4) + bit):
                try:
                    wrong += rows(ab) != right
                except AnabranchError:
                    continue
            if wrong:
                break
    assert wrong


def test_every_bit_of_a_metadata_file_counts(home: Path) -> None:
    with opened(home) as ab:
        location = ab._runtime.lake.pointers()[TableName.parse("s.t")]
    path = Path(location.removeprefix("file://"))
    data = path.read_bytes()
    whole = checksums.unsealed(data, location)
    unnoticed = []
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        try:
            assert checksums.unsealed(bytes(changed), location) != whole
            unnoticed.append(at)
        except FileDamaged:
            pass
    seal = data.index(checksums.SEAL.encode())
    assert all(seal - 1 <= at <= seal + 120 for at in unnoticed)  # the name of the seal itself


def test_a_tail_is_everything_behind_the_pages(home: Path) -> None:
    with opened(home) as ab:
        version = ab._runtime.lake.current(TableName.parse("s.t"))
        state = version.state(version.snapshot_id)
    assert state.data
    for entry in state.data:
        path, tail = entry.data_file.file_path, tail_of(entry.data_file)
        assert tail is not None
        check_tail(path, tail)
        plain = Path(path.removeprefix("file://"))
        data, length = plain.read_bytes(), tail >> 32
        footer = pq.read_metadata(plain)
        assert length >= footer.serialized_size + 8 and tail == summed(data[-length:])
        for bit in (len(data) * 8 - 1, (len(data) - length) * 8):
            with flipped(plain, bit), pytest.raises(FileDamaged, match="footer"):
                check_tail(path, tail)


def test_files_of_other_programs_are_read_as_they_are(home: Path) -> None:
    with opened(home) as ab:
        append(ab, "s.t", (9, 9, "nine"))
        forget()
        assert (9, 9, "nine") in ab.table("s.t").collect()
        ab.sql("INSERT INTO s.t VALUES (10, 10, 'ten')")
        ab.refresh()
        assert {(9, 9), (10, 10)} <= {*rows(ab)["s.d"]}


MODES, WAYS = ("AUTO", "DIFFERENTIAL", "FULL"), ("gone", "flipped", "garbled", "empty")
FEW = {("AUTO", "gone", "lists"), ("AUTO", "garbled", "metadata"), ("FULL", "gone", "metadata")}
FEW |= {("DIFFERENTIAL", "flipped", kind) for kind in ("data", "manifests")}
BROKEN = [  # the rest is for test-all
    pytest.param(kind, way, mode, marks=() if (mode, way, kind) in FEW else pytest.mark.slow)
    for kind in ("data", "manifests", "lists", "metadata")
    for way in WAYS
    for mode in MODES
]


@pytest.mark.parametrize(("kind", "way", "mode"), BROKEN)
def test_a_refresh_rebuilds_what_it_cannot_read(home: Path, kind: str, way: str, mode: str) -> None:
    with opened(home) as ab:
        ab.create_stream_table("s.e", "SELECT k, v + 1 AS v FROM s.d", schedule=None)
        ab.alter_stream_table("s.d", refresh_mode=mode)
    break_table(home, "s.d", kind, way)
    with opened(home) as ab:
        ab.sql("INSERT INTO s.t VALUES (7, 7, 'seven')")
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1, 5), (3, 300), (7, 7)]
        assert sorted(ab.table("s.e").collect()) == [(1, 6), (3, 301), (7, 8)]
        line = ab.history("s.d", 1)[0]
        if (mode, kind) != ("FULL", "data"):  # its old rows are not looked at
            assert "missing or damaged" in line["reason"] or "cannot be computed" in line["reason"]
            kinds = {each["kind"] for each in ab.events("s.d")}
            assert kinds & {"REINITIALIZED", "FALLBACK"}
        assert line["action"] in ("REINITIALIZE", "FULL")
        assert ab.verify("s.d")["equal"] and ab.verify("s.e")["equal"]
        ab.sql("INSERT INTO s.t VALUES (7, 1, 'more')")
        assert {each["action"] for each in ab.refresh()} <= {"DIFFERENTIAL", "FULL"}
        assert (7, 8) in ab.table("s.d").collect()


def verb(ab: Anabranch, said: str) -> None:
    {
        "FULL": lambda: ab.refresh("s.d", full=True),
        "ALTER": lambda: ab.alter_stream_table("s.d", query=TOTALS + " HAVING SUM(v) > 0"),
        "REPLACE": lambda: ab.create_stream_table(
            "s.d", TOTALS + " HAVING SUM(v) > 0", or_replace=True, schedule=None
        ),
        "MODE": lambda: (ab.alter_stream_table("s.d", refresh_mode="AUTO"), ab.refresh(full=True)),
    }[said]()


VERBS = [
    pytest.param(kind, said, marks=() if (kind, said) in few else pytest.mark.slow)
    for few in [{("metadata", "ALTER"), ("lists", "REPLACE"), ("data", "MODE")}]
    for kind in ("data", "manifests", "lists", "metadata")
    for said in ("FULL", "ALTER", "REPLACE", "MODE")
]


@pytest.mark.parametrize(("kind", "said"), VERBS)
def test_every_verb_that_fills_a_table_mends_it(home: Path, kind: str, said: str) -> None:
    with opened(home) as ab:
        ab.create_stream_table("s.e", "SELECT k, v + 1 AS v FROM s.d", schedule=None)
    break_table(home, "s.d", kind, "gone")
    with opened(home) as ab:
        verb(ab, said)
        ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1, 5), (3, 300)]
        assert sorted(ab.table("s.e").collect()) == [(1, 6), (3, 301)]


@pytest.mark.parametrize("kind", ["lists", "metadata"])
def test_a_broken_table_can_be_dropped(home: Path, kind: str) -> None:
    break_table(home, "s.d", kind, "gone")
    break_table(home, "s.t", kind, "gone")
    with opened(home) as ab:
        ab.drop_stream_table("s.d")
        ab.sql("DROP TABLE s.t")
        assert ab.tables() == []
        ab.sql("CREATE TABLE s.t (k BIGINT)")
        assert ab.table("s.t").collect() == []


def test_a_refresh_over_a_broken_source_fails_and_names_the_file(home: Path) -> None:
    with opened(home) as ab:
        ab.sql("INSERT INTO s.t VALUES (7, 7, 'seven')")
    (root,) = roots(home, "s.t")
    newest = max(root.glob("data/**/*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    flip(newest, newest.stat().st_size * 8 - 100)
    forget()
    with opened(home) as ab:
        with pytest.raises(FileDamaged, match=newest.name):
            ab.refresh()
        assert sorted(ab.table("s.d").collect()) == [(1, 5), (3, 300)]
        assert ab.status()[0]["status"] == "ERROR"
