"""Files that name other files by absolute paths, written again for another place.

Iceberg keeps absolute paths in table metadata, manifest lists, manifests and position deletes.  What
is rewritten changes its size, and the sizes of files stand in those that name them: so position deletes
come first, then manifests, then their lists, then table metadata.  A file that names the new place
already is left as it is, so that a relocation which was interrupted can be done again.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.lake import avro
from anabranch.lake.changes import DELTA
from anabranch.lake.checksums import named_again, sealed_again
from anabranch.lake.footers import TAIL_ID, tail_in
from anabranch.lake.places import same_form
from anabranch.model import FILE_PATH_ID

METADATA = ".metadata.json"
_POSITION_DELETES = 1
_PATHS = ("location", "metadata-file", "manifest-list", "statistics-path")
_BATCH = 64_000


@dataclass(frozen=True)
class Move:
    """From one warehouse to another."""

    old: str
    new: str

    def path(self, path: str) -> str:
        """A path of the old place in the new one, however it was spelled; others stay."""
        if path == self.old:
            return self.new
        found = same_form(path, self.old)
        return self.new + found[len(self.old) :] if found.startswith(self.old + "/") else path

    def value(self, value: Any) -> Any:
        """The same for all texts in a value of JSON."""
        if isinstance(value, str):
            return self.path(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        return value

    def relative(self, path: str) -> str | None:
        """Where a file of the warehouse lies in it, by either name of the place."""
        moved = self.path(path)
        return moved[len(self.new) + 1 :] if moved.startswith(self.new + "/") else None


@dataclass
class Relocation:
    """Rewrites files, named by their paths in the warehouse; what cannot be read is `damaged`."""

    move: Move
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], None]
    rewritten: int = 0
    damaged: list[str] = field(default_factory=list)
    _sizes: dict[str, int] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)  # where names tell checksums
    _tails: dict[str, int] = field(default_factory=dict)  # checksums of rewritten Parquet files

    def run(self, files: Iterable[str], records: Iterable[Mapping[str, Any]] = ()) -> None:
        """`records` are snapshots that no metadata file lists."""
        named = sorted(files)
        kinds = {path: self._kind(path) for path in named}
        metadata = [path for path in named if kinds[path] == "metadata"]
        lists = [path for path in named if kinds[path] == "list"]
        manifests = [path for path in named if kinds[path] == "manifest"]
        deletes = {each for path in manifests for each in self._deletes(path)}
        deletes |= {each for path in metadata for each in self._removed(path)}
        for record in records:
            root = record["manifest-list"].rpartition("/metadata/")[0]
            deletes |= {*self._removed_by(record, self.move.relative(root) or "")}
        for path in sorted(deletes.intersection(named)):
            self._rewrite(path, self._moved_deletes)
        for path in manifests:
            self._rewrite(path, self._moved_manifest)
        for path in lists:
            self._rewrite(path, self._moved_list)
        for path in metadata:
            self._rewrite(path, lambda data, at=path: self._moved_metadata(data, at))  # type: ignore[misc]

    def value(self, value: Any) -> Any:
        """A value of the catalog's rows; parts of table metadata name files by their new names."""
        if isinstance(value, dict) and ("manifest-list" in value or "table-uuid" in value):
            return self._with_paths(value)
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        return self.move.value(value)

    def _rewrite(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        try:
            data = self.read(path)
            new = change(data)
        except (ValueError, KeyError, pa.ArrowException) as error:
            self.damaged.append(f"{path}: {error}")
            return
        if new is not None:
            self._names[path] = named_again(path, new)
            self.write(self._names[path], new)
            self.rewritten += 1
        left = data if new is None else new  # also rewritten by a relocation that was interrupted
        self._sizes[path] = len(left)
        if path.endswith(".parquet"):
            self._tails[path] = tail_in(left)

    def _kind(self, path: str) -> str | None:
        if path.endswith(METADATA):
            return "metadata"
        if not path.endswith(".avro"):
            return None
        try:
            fields = avro.read(self.read(path)).fields
        except ValueError as error:
            self.damaged.append(f"{path}: {error}")
            return None
        if "manifest_path" in fields:
            return "list"
        return "manifest" if "data_file" in fields else None

    def _deletes(self, path: str) -> Iterable[str]:
        """The position deletes that a manifest names."""
        for record in avro.read(self.read(path)).records:
            file = record["data_file"]
            if file.get("content") == _POSITION_DELETES and (
                found := self.move.relative(file["file_path"])
            ):
                yield found

    def _removed(self, path: str) -> Iterable[str]:
        """Files of removed rows in deltas: they are position deletes in form, if not in use."""
        try:
            metadata = _json(self.read(path), path)
        except ValueError:
            return
        root = self.move.relative(metadata.get("location", "")) or ""
        for snapshot in metadata.get("snapshots") or []:
            yield from self._removed_by(snapshot, root)

    def _removed_by(self, snapshot: Mapping[str, Any], root: str) -> Iterable[str]:
        if text := (snapshot.get("summary") or {}).get(DELTA):
            for name in json.loads(text)["minus"]:
                yield self.move.relative(name) or f"{root}/{name}"

    def _moved_deletes(self, data: bytes) -> bytes | None:
        """Position deletes with the paths of the new place; all else as it was."""
        source = pq.ParquetFile(io.BytesIO(data))
        schema, at = source.schema_arrow, _path_column(source.schema_arrow)
        if at is None:
            return None
        out, changed = io.BytesIO(), False
        with pq.ParquetWriter(
            out,
            schema,
            compression="zstd",
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_checksum=True,
        ) as writer:
            for batch in source.iter_batches(_BATCH):
                paths = batch.column(at).to_pylist()
                moved = [each if each is None else self.move.path(each) for each in paths]
                changed = changed or moved != paths
                array = pa.array(moved, schema.field(at).type)
                columns = [array if n == at else c for n, c in enumerate(batch.columns)]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return out.getvalue() if changed else None

    def _moved_manifest(self, data: bytes) -> bytes | None:
        file, changed = avro.read(data), False
        for record in file.records:
            changed = self._moved_file(record["data_file"]) or changed
        return avro.write(file) if changed else None

    def _moved_file(self, file: dict[str, Any]) -> bool:
        before = repr(file)
        file["file_path"] = self.move.path(file["file_path"])
        size = self._sizes.get(self.move.relative(file["file_path"]) or "")
        if size is not None and size != file["file_size_in_bytes"]:
            file["file_size_in_bytes"] = size
            if "split_offsets" in file:  # they are those of the file as it was
                file["split_offsets"] = (0, None)
        if (tail := self._tails.get(self.move.relative(file["file_path"]) or "")) is not None:
            file["column_sizes"] = _with_tail(file["column_sizes"], tail)
        branch, path = file.get("referenced_data_file", (0, None))
        if path is not None:
            file["referenced_data_file"] = (branch, self.move.path(path))
        for bounds in ("lower_bounds", "upper_bounds"):
            if bounds in file:
                file[bounds] = self._moved_bounds(file[bounds])
        return repr(file) != before

    def _moved_bounds(self, bounds: tuple[int, Any]) -> tuple[int, Any]:
        """Bounds of paths; one that was cut short within the old place says nothing any more."""
        branch, pairs = bounds
        if not pairs:
            return bounds
        kept = []
        for pair in pairs:
            if pair["key"] == FILE_PATH_ID:
                path = pair["value"].decode("utf-8", "replace")
                moved = self.move.path(path)
                if moved == path and self.move.old.startswith(path.rstrip("\ufffd")):
                    continue
                pair = {**pair, "value": moved.encode()}
            kept.append(pair)
        return branch, kept

    def _moved_list(self, data: bytes) -> bytes | None:
        file, changed = avro.read(data), False
        for record in file.records:
            before = (record["manifest_path"], record["manifest_length"])
            record["manifest_path"] = self.move.path(record["manifest_path"])
            known = self._sizes.get(self.move.relative(record["manifest_path"]) or "")
            record["manifest_length"] = record["manifest_length"] if known is None else known
            record["manifest_path"] = self._renamed(record["manifest_path"])
            changed = changed or before != (record["manifest_path"], record["manifest_length"])
        return avro.write(file) if changed else None

    def _moved_metadata(self, data: bytes, path: str) -> bytes | None:
        metadata = _json(data, path)
        moved = self._with_paths(metadata)
        if moved == metadata:
            return None
        text = json.dumps(moved, separators=(",", ":"), ensure_ascii=False).encode()
        text = sealed_again(text, path)
        return gzip.compress(text) if data[:2] == b"\x1f\x8b" else text

    def _with_paths(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._with_paths(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._with_paths(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key == DELTA:
            return self._moved_delta(json.loads(value))
        if key == "manifest-list":
            return self._renamed(self.move.path(value))
        is_path = key in _PATHS or (key.startswith("write.") and key.endswith(".path"))
        return self.move.path(value) if is_path else value

    def _moved_delta(self, delta: dict[str, Any]) -> str:
        """Tails are those of the files as they are now, where these were rewritten."""
        moved = self.move.value(delta)
        tails = moved.get("minus_tails") or []
        for at, path in enumerate(moved["minus"][: len(tails)]):
            new = [tail for name, tail in self._tails.items() if name.endswith(f"/{path}")]
            tails[at] = self._tails.get(self.move.relative(path) or "", *new[:1] or [tails[at]])
        return json.dumps(moved, separators=(",", ":"))

    def _renamed(self, path: str) -> str:
        """A path of the new place, by the name that the file has now."""
        relative = self.move.relative(path)
        if relative is None or relative not in self._names:
            return path
        return f"{self.move.new}/{self._names[relative]}"


def _with_tail(sizes: tuple[int, Any], tail: int) -> tuple[int, Any]:
    branch, pairs = sizes
    if not pairs:
        return sizes
    return branch, [{**p, "value": tail} if p["key"] == TAIL_ID else p for p in pairs]


def _path_column(schema: pa.Schema) -> int | None:
    """The column of paths: by its field id, else by its name."""
    ids = [(each.metadata or {}).get(b"PARQUET:field_id") for each in schema]
    wanted = str(FILE_PATH_ID).encode()
    if wanted in ids:
        return ids.index(wanted)
    found = schema.get_field_index("file_path")
    return found if found >= 0 and not any(ids) else None


def _json(data: bytes, path: str) -> dict[str, Any]:
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no table metadata")
    return found
