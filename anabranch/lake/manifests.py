"""Manifests and manifest lists: read once (they never change), written by us.

Compare contents by `==`: of version 1 tables PyIceberg gives plain numbers.

PyIceberg writes no delete manifests; its manifest writer does when told that its content is deletes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from anabranch.cache import Cache
from anabranch.lake import checksums

LIST, MANIFEST = "manifest list", "manifest"


_lists: Cache[tuple[ManifestFile, ...]] = Cache(512, "manifest lists", of_files=True)
_entries: Cache[tuple[ManifestEntry, ...]] = Cache(1024, "manifests", of_files=True)


def manifests(io: FileIO, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
    if snapshot is None:
        return ()
    path = snapshot.manifest_list
    return _lists.get(path, lambda: _read_list(io, path))


def entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """All entries of a manifest, also those of files that it removed."""
    return _entries.get(
        manifest.manifest_path,
        lambda: _read_entries(io, manifest),
    )


def _read_list(io: FileIO, path: str) -> tuple[ManifestFile, ...]:
    data = checksums.read_bytes(io, path, LIST)
    with _readable(path, LIST):
        return tuple(read_manifest_list(checksums.Held(path, data)))


def _read_entries(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    path = manifest.manifest_path
    held = checksums.HeldFiles(checksums.Held(path, checksums.read_bytes(io, path, MANIFEST)))
    with _readable(path, MANIFEST):
        found = tuple(manifest.fetch_manifest_entry(held, discard_deleted=False))
        if any(each.data_file.file_format is FileFormat.PUFFIN for each in found):
            return _with_later_fields(held.new_input(path), found)
        return found


def _with_later_fields(
    file: InputFile, entries: Sequence[ManifestEntry]
) -> tuple[ManifestEntry, ...]:
    """The same with the fields of version 3, which PyIceberg does not read: where a deletion vector
    lies in its file.  What entries inherit from their manifest is known already."""
    kinds: dict[int, Any] = {-1: ManifestEntry, 2: DataFile}
    enums: dict[int, Any] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    schema = MANIFEST_ENTRY_SCHEMAS[3]
    with AvroFile[ManifestEntry](file, schema, read_types=kinds, read_enums=enums) as reader:
        read = tuple(reader)
    for entry, known in zip(read, entries, strict=True):
        for name in ("snapshot_id", "sequence_number", "file_sequence_number"):
            setattr(entry, name, getattr(known, name))
        entry.data_file.spec_id = known.data_file.spec_id
    return read


@contextmanager
def _readable(path: str, what: str) -> Iterator[None]:
    """What a reader of damaged bytes runs into may be anything."""
    try:
        yield
    except Exception as error:
        raise checksums.damaged(path, what) from error


def live_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    return [each for each in entries(io, manifest) if each.status != ManifestEntryStatus.DELETED]


def is_live(manifest: ManifestFile) -> bool:
    """Whether a manifest still lists a file; without counts it might."""
    return manifest.has_added_files() or manifest.has_existing_files()


class DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        writer = super().new_writer()
        writer.metadata = {**writer.metadata, "content": "deletes"}
        return writer


class ManifestFolder:
    """Writes the manifests of one new snapshot; their names carry the stage's id."""

    def __init__(
        self, io: FileIO, metadata: TableMetadata, stage_id: str, snapshot_id: int
    ) -> None:
        self.io = io
        self.metadata = metadata
        self.stage_id = stage_id
        self.snapshot_id = snapshot_id
        self.count = 0

    def added(self, content: ManifestContent, files: Sequence[DataFile]) -> list[ManifestFile]:
        new = (
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
            )
            for file in files
        )
        return self._written(content, self.metadata.default_spec_id, new) if files else []

    def removed(
        self, content: ManifestContent, gone: Iterable[ManifestEntry]
    ) -> list[ManifestFile]:
        return self._with_status(content, gone, ManifestEntryStatus.DELETED, self.snapshot_id)

    def kept(self, content: ManifestContent, live: Iterable[ManifestEntry]) -> list[ManifestFile]:
        return self._with_status(content, live, ManifestEntryStatus.EXISTING, None)

    def write_list(self, parent: int | None, sequence: int, written: Sequence[ManifestFile]) -> str:
        buffer = checksums.Buffered(f"{self._folder()}/snap-{self.snapshot_id}-{self.stage_id}")
        with write_manifest_list(
            format_version=self.metadata.format_version,
            output_file=buffer,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=parent,
            sequence_number=sequence,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests(list(written))
        return buffer.write(self.io)

    def _with_status(
        self,
        content: ManifestContent,
        old: Iterable[ManifestEntry],
        status: ManifestEntryStatus,
        snapshot_id: int | None,
    ) -> list[ManifestFile]:
        by_spec: dict[int, list[ManifestEntry]] = {}
        for each in old:
            copied = ManifestEntry.from_args(
                status=status,
                snapshot_id=snapshot_id or each.snapshot_id,
                sequence_number=each.sequence_number,
                file_sequence_number=each.file_sequence_number,
                data_file=each.data_file,
            )
            by_spec.setdefault(each.data_file.spec_id, []).append(copied)
        return [
            manifest
            for spec_id, group in by_spec.items()
            for manifest in self._written(content, spec_id, group)
        ]

    def _written(
        self, content: ManifestContent, spec_id: int, new: Iterable[ManifestEntry]
    ) -> list[ManifestFile]:
        stem = f"{self._folder()}/{self.stage_id}-{self.snapshot_id}-m{self.count}"
        buffer = checksums.Buffered(stem)
        self.count += 1
        kind = DeleteManifestWriter if content == ManifestContent.DELETES else ManifestWriterV2
        arguments: dict[str, Any] = {
            "spec": self._spec(spec_id),
            "schema": self._schema(),
            "output_file": buffer,
            "snapshot_id": self.snapshot_id,
            "avro_compression": "deflate",
        }
        writer: ManifestWriter
        with kind(**arguments) as writer:
            for entry in new:
                writer.add_entry(entry)
        buffer.write(self.io)
        return [writer.to_manifest_file()]

    def _folder(self) -> str:
        return f"{self.metadata.location.rstrip('/')}/metadata"

    def _spec(self, spec_id: int) -> PartitionSpec:
        return self.metadata.specs()[spec_id]

    def _schema(self) -> Schema:
        return self.metadata.schema()
