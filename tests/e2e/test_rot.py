"""Files that Spark wrote, with a flipped bit: an error, or the right rows; never others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anabranch import Anabranch
from anabranch.errors import AnabranchError, FileDamaged
from anabranch.names import TableName
from tests.standin.damage import flipped, forget

COUNTS = "SELECT k, count(*) AS n, sum(v) AS v FROM r.t GROUP BY k"
PLAIN = "SELECT k, v FROM r.t WHERE v >= 0"


@pytest.fixture
def ab_rot(ab: Anabranch) -> Anabranch:
    ab.set("small_table_rows", 0)  # removed rows are marked: there are position deletes
    ab.sql("CREATE TABLE r.t (id BIGINT, k STRING, v DECIMAL(12,2))")
    ab.sql(
        "INSERT INTO r.t SELECT id, concat('k', id % 7), CAST(id AS DECIMAL(12,2)) FROM range(200)"
    )
    ab.create_stream_table("r.counts", COUNTS, schedule=None)
    ab.create_stream_table("r.plain", PLAIN, schedule=None)
    ab.sql("DELETE FROM r.t WHERE id = 10")
    ab.refresh()
    return ab


def rows(ab: Anabranch, name: str) -> list[Any]:
    forget()
    ab._runtime.lake._versions._values.clear()
    return sorted(map(tuple, ab.table(name).collect()), key=str)


def in_pages(path: Path, chosen: random.Random) -> int:
    """A bit of some page, not of what lies around it."""
    columns = pq.read_metadata(path).row_group(0)
    column = columns.column(chosen.randrange(columns.num_columns))
    start = column.dictionary_page_offset or column.data_page_offset
    return chosen.randrange(start * 8, (start + column.total_compressed_size) * 8)


def in_tail(path: Path, chosen: random.Random) -> int:
    size = path.stat().st_size
    return chosen.randrange((size - pq.read_metadata(path).serialized_size) * 8, size * 8)


def used(ab: Anabranch, name: str) -> list[Path]:
    version = ab._runtime.lake.current(TableName.parse(name))
    reading = version.reading()
    paths = (*reading.files, *reading.skip)
    return [Path(path.removeprefix("file://")) for path in paths]


def test_no_flipped_bit_gives_other_rows(ab_rot: Anabranch) -> None:
    chosen, noticed, tried = random.Random(7), 0, 0
    for name in ("r.t", "r.counts", "r.plain"):
        right, files = rows(ab_rot, name), used(ab_rot, name)
        assert len(files) > 1, "there are position deletes"
        for path in files:
            for place in (in_pages, in_pages, in_tail):
                bit = place(path, chosen)
                tried += 1
                with flipped(path, bit):
                    try:
                        assert rows(ab_rot, name) == right, f"bit {bit} of {path}"
                    except FileDamaged as error:
                        noticed += 1
                        assert str(path.name) in str(error) and error.hint
                    except AnabranchError:
                        noticed += 1
        assert rows(ab_rot, name) == right
    assert noticed > tried / 2  # columns that are not read need not be right


def test_lost_state_is_rebuilt_by_a_refresh(ab_rot: Anabranch) -> None:
    path = used(ab_rot, "r.counts")[0]
    ab_rot.sql("ALTER STREAM TABLE r.counts SET REFRESH MODE DIFFERENTIAL")
    ab_rot.sql("INSERT INTO r.t VALUES (1000, 'k1', 5.00)")
    data = bytearray(path.read_bytes())
    at = pq.read_metadata(path).row_group(0).column(0)
    data[(at.dictionary_page_offset or at.data_page_offset) + at.total_compressed_size - 2] ^= 1
    path.write_bytes(data)
    ab_rot.refresh("r.counts")
    line = ab_rot.history("r.counts", 1)[0]
    assert line["action"] == "REINITIALIZE" and "gone or damaged" in line["reason"]
    assert "REINITIALIZED" in {each["kind"] for each in ab_rot.events("r.counts")}
    assert ab_rot.verify("r.counts")["equal"]
