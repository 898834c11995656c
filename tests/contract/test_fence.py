"""One warehouse, one catalog: clones and relocation, over SQLite and PostgreSQL."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import make_url

from anabranch.catalog import cuts
from anabranch.errors import Fenced
from anabranch.lake import avro
from anabranch.lake.adopt import adopt
from anabranch.lake.fence import Mark, places_of
from anabranch.lake.footers import tail_in, tail_of
from anabranch.lake.manifests import manifests
from anabranch.lake.places import local_path
from anabranch.lake.upkeep import maintain
from anabranch.names import TableName
from tests.contract.world import T, World, bag, difference, net

NOW = timedelta(0)
OTHER = TableName.of("shop", "other")


def clone_of(url: str, tmp_path: Path) -> str:
    """Another database with the same rows, as a dump that was restored under another name."""
    name = f"c{uuid.uuid4().hex[:12]}"
    if "://" not in url:
        with closing(sqlite3.connect(url)) as source:
            source.execute("VACUUM INTO ?", [str(tmp_path / name)])
        return str(tmp_path / name)
    schema = url.rpartition("%3D")[2]
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as c:
        c.execute(text(f"CREATE SCHEMA {name}"))
        for table in inspect(c).get_table_names(schema=schema):
            c.execute(text(f"CREATE TABLE {name}.{table} (LIKE {schema}.{table} INCLUDING ALL)"))
            c.execute(text(f"INSERT INTO {name}.{table} SELECT * FROM {schema}.{table}"))
    engine.dispose()
    return url.replace(schema, name)


@pytest.fixture
def clone(world: World, tmp_path: Path) -> Iterator[World]:
    world.create()
    world.append([(1, "eu"), (2, "eu")])
    world.mark([(1, "eu")])
    opened = World(clone_of(world.url, tmp_path), world.warehouse)
    yield opened
    opened.close()


def live(world: World) -> set[str]:
    return set(world.lake.warehouse.listing(world.lake.warehouse.location))


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_cloned_catalog_is_refused(world: World, clone: World, goes_on: bool) -> None:
    if goes_on:
        world.append([(3, "eu")])
    before = live(world)
    for act in (lambda: clone.append([(9, "us")]), lambda: maintain(clone.lake, retention=NOW)):
        with pytest.raises(Fenced, match="is a copy") as caught:
            act()
        assert "anabranch adopt" in str(caught.value.hint)
    assert live(world) == before
    assert bag(clone.lake.current(T)) == {(2, "eu"): 1}  # it may be read
    world.append([(4, "eu")])
    assert bag(world.lake.current(T)) == world.seen_by_pyiceberg()


def test_an_adopted_clone_shuts_the_original_out(world: World, clone: World) -> None:
    world.append([(3, "eu")])
    adopt(clone.lake)
    with pytest.raises(Fenced, match="belongs to another catalog"):
        world.append([(4, "eu")])
    with pytest.raises(Fenced, match="belongs to another catalog"):
        maintain(world.lake, retention=NOW)
    clone.append([(5, "us")])
    maintain(clone.lake, retention=NOW)
    assert bag(clone.lake.current(T)) == {(2, "eu"): 1, (5, "us"): 1} == clone.seen_by_pyiceberg()


def test_a_clone_that_no_name_tells(world: World, clone: World) -> None:
    """A copy of a server's disk is the same database by name: the marked cut tells."""
    clone.lake.fence._database = world.lake.fence.database
    world.append([(3, "eu")])
    with pytest.raises(Fenced, match="is at cut 3, but its warehouse has seen cut 4"):
        clone.append([(9, "us")])
    with world.store.writing() as c:
        behind = cuts.current(c)
    assert behind == 4


def test_two_clones_that_both_had_begun(world: World, clone: World) -> None:
    clone.lake.fence._database = world.lake.fence.database
    clone.append([(9, "us")])
    world.lake.fence.advance(1)  # never backwards
    with pytest.raises(Fenced, match="has seen cut 4"):
        world.append([(3, "eu")])


def test_the_mark_follows_each_publish(world: World) -> None:
    world.create()
    path = Path(local_path(world.lake.warehouse.location) or "") / "anabranch.json"
    inode, size = path.stat().st_ino, path.stat().st_size
    for at in range(12):
        world.append([(at, "eu")])
        mark = world.lake.warehouse.take("anabranch.json")
        assert mark is not None and mark["cut"] == at + 2
    assert (path.stat().st_ino, path.stat().st_size) == (inode, size)  # in place: never half a file
    path.write_bytes(b"")  # as a power cut may leave it
    world.append([(99, "eu")])
    again = World(world.url, world.warehouse)
    again.append([(100, "eu")])
    again.close()
    assert b'"location"' in path.read_bytes()


def test_digits_of_a_mark() -> None:
    sizes = {len(Mark("a", "b", cut=cut).text()) for cut in (0, 7, 10**18)}
    assert len(sizes) == 1


def test_places_of_tables() -> None:
    assert places_of("file:///w/shop/t-0123abcd") == ["file:///w"]
    assert places_of("s3://b/w/db/shop/t-0123abcd") == ["s3://b/w/db", "s3://b/w"]
    assert places_of("/elsewhere/their/table") == []


def moved(world: World, tmp_path: Path) -> World:
    """The warehouse and its catalog in another folder."""
    shutil.move(world.warehouse, tmp_path / "elsewhere" / "warehouse")
    return World(world.url, tmp_path / "elsewhere" / "warehouse")


def test_every_path_is_rewritten(world: World, tmp_path: Path) -> None:
    world.create()
    first = world.append([(at, "eu") for at in range(20)])
    world.mark([(3, "eu"), (4, "eu")], add=[(3, "us")])
    world.rewrite([(5, "eu")], [(5, "us")])
    world.mark([(6, "eu")])
    before, snapshots = bag(world.lake.current(T)), world.lake.current(T).snapshot_ids
    deltas = difference(before, bag(first))
    other = moved(world, tmp_path)
    report = adopt(other.lake)
    assert report.moved_from == f"file://{world.warehouse}" and report.files_rewritten > 10
    version = other.lake.current(T)
    assert bag(version) == before == other.seen_by_pyiceberg()
    assert version.snapshot_ids == snapshots
    assert net(version.delta(first.snapshot_id)) == deltas
    assert bag(version, first.snapshot_id) == bag(
        other.lake.version(T, other.lake.pointers_at(2)[T])
    )
    maintain(other.lake, retention=timedelta(days=1))  # files that have other names now are garbage
    old = f"{world.warehouse}/"
    left = [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
    assert {path.suffix for path in left} == {".avro", ".parquet", ".json"}
    for path in left:
        assert old not in told(path), path
    other.append([(30, "eu")])
    maintain(other.lake, retention=NOW)
    assert bag(other.lake.current(T)) == other.seen_by_pyiceberg()
    other.close()


def told(path: Path) -> str:
    """Everything that a file says."""
    if path.suffix == ".avro":
        return repr(avro.read(path.read_bytes()).records)
    if path.suffix == ".parquet":
        return str(pq.read_table(path, partitioning=None).to_pylist())
    return path.read_text()


def test_sizes_are_those_of_the_files(world: World, tmp_path: Path) -> None:
    """Iceberg's readers trust the sizes that manifests and their lists name."""
    world.create()
    world.append([(at, "eu") for at in range(9)])
    world.mark([(3, "eu")])
    other = moved(world, tmp_path)
    adopt(other.lake)
    version = other.lake.current(T)
    for manifest in manifests(version.io, version.metadata.current_snapshot()):
        assert manifest.manifest_length == _size(manifest.manifest_path)
        for entry in manifest.fetch_manifest_entry(version.io):
            assert entry.data_file.file_size_in_bytes == _size(entry.data_file.file_path)
    other.close()


def _size(location: str) -> int:
    return Path(local_path(location) or "").stat().st_size


def test_an_interrupted_relocation_is_done_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create()
    world.append([(at, "eu") for at in range(9)])
    world.mark([(3, "eu")])
    expected = bag(world.lake.current(T))
    other = moved(world, tmp_path)
    for least in range(1, 30):
        if _adopted(other, least, monkeypatch):
            break
    assert least > 3
    version = other.lake.current(T)
    assert bag(version) == expected == other.seen_by_pyiceberg()
    for manifest in manifests(version.io, version.metadata.current_snapshot()):
        assert manifest.manifest_length == _size(manifest.manifest_path)
        for entry in manifest.fetch_manifest_entry(version.io):
            file = entry.data_file
            data = Path(local_path(file.file_path) or "").read_bytes()
            assert (len(data), tail_in(data)) == (file.file_size_in_bytes, tail_of(file))
    other.close()


def _adopted(world: World, most: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Adopt, but die after a number of files."""
    from anabranch.lake import adopt as module

    written = 0
    real = module.replace_file

    def dies(*given: object) -> None:
        nonlocal written
        written += 1
        if written > 1 and most < 5:
            raise KeyboardInterrupt
        real(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "replace_file", dies)
        try:
            adopt(world.lake)
        except KeyboardInterrupt:
            return False
    return True


def test_tables_elsewhere_stay_where_they_are(world: World, tmp_path: Path) -> None:
    world.create()
    catalog = world.foreign()
    rows = pa.table({"id": [1]})
    location = f"file://{tmp_path}/theirs"
    catalog.create_table(("shop", "other"), rows.schema, location=location).append(rows)
    other = moved(world, tmp_path)
    adopt(other.lake)
    version = other.lake.current(OTHER)
    assert version.root == location and version.rows == 1
    other.close()
