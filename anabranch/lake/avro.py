"""Avro files, read and written with the schema that they carry, so that nothing in them is lost.

PyIceberg reads manifests into its own records and would write them with its own schema; here a field
that some other program added comes out as it went in.  A union is read as (branch, value).
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

MAGIC = b"Obj\x01"
BLOCK = 4000  # records in a block
Read = Callable[[io.BytesIO], Any]
Write = Callable[[io.BytesIO, Any], None]


@dataclass
class AvroFile:
    """`meta` is the header; `records` may be changed and written again."""

    meta: dict[str, bytes]
    records: list[Any]

    @property
    def fields(self) -> set[str]:
        """The names of the fields of a record."""
        return {field["name"] for field in json.loads(self.meta["avro.schema"])["fields"]}


def read(data: bytes) -> AvroFile:
    """ValueError when this is no Avro file, or half of one."""
    source = io.BytesIO(data)
    if source.read(len(MAGIC)) != MAGIC:
        raise ValueError("not an Avro file")
    try:
        meta = {key: bytes(value) for key, value in _pairs(source)}
        sync = source.read(16)
        decode, _ = _codec(json.loads(meta["avro.schema"]), {})
        codec = meta.get("avro.codec", b"null").decode()
        records: list[Any] = []
        while source.tell() < len(data):
            count, size = _long(source), _long(source)
            block = io.BytesIO(_unpacked(source.read(size), codec))
            records += [decode(block) for _ in range(count)]
            if source.read(16) != sync:
                raise ValueError("a block of the Avro file is truncated")
    except (KeyError, IndexError, TypeError, struct.error, zlib.error) as error:
        raise ValueError(f"a truncated Avro file: {error}") from error
    return AvroFile(meta, records)


def write(file: AvroFile) -> bytes:
    """The same file for the same records, so that work which is done again changes no name."""
    meta, out = {**file.meta, "avro.codec": b"deflate"}, io.BytesIO()
    _, encode = _codec(json.loads(file.meta["avro.schema"]), {})
    sync = hashlib.sha256(repr(file.records).encode()).digest()[:16]
    out.write(MAGIC)
    _put_long(out, len(meta))
    for key, value in meta.items():
        _put_bytes(out, key.encode())
        _put_bytes(out, value)
    _put_long(out, 0)
    out.write(sync)
    for start in range(0, len(file.records), BLOCK):
        block = io.BytesIO()
        chosen = file.records[start : start + BLOCK]
        for record in chosen:
            encode(block, record)
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(block.getvalue()) + packer.flush()
        _put_long(out, len(chosen))
        _put_bytes(out, packed)
        out.write(sync)
    return out.getvalue()


def _unpacked(data: bytes, codec: str) -> bytes:
    if codec == "null":
        return data
    if codec == "deflate":
        return zlib.decompress(data, wbits=-15)
    if codec == "bzip2":
        return bz2.decompress(data)
    if codec == "snappy":  # the size stands in front, a checksum behind
        size = shift = at = 0
        while True:
            size |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                break
        return bytes(pa.decompress(data[:-4], size, "snappy", asbytes=True))
    if codec == "zstandard":
        return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())
    raise ValueError(f"Avro files packed with {codec} cannot be read")


def _codec(schema: Any, names: dict[str, tuple[Read, Write]]) -> tuple[Read, Write]:
    """How to read and write values of a schema; named types may be used again by name."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        return _union([_codec(each, names) for each in kind])
    if isinstance(kind, dict):
        return _codec(kind, names)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in names:
        return names[kind]
    if kind == "array":
        return _array(*_codec(schema["items"], names))
    if kind == "map":
        return _map(*_codec(schema["values"], names))
    found = names[schema["name"]] = _named(kind, schema, names)
    return found


def _named(kind: str, schema: Any, names: dict[str, tuple[Read, Write]]) -> tuple[Read, Write]:
    if kind == "fixed":
        size = int(schema["size"])
        return lambda source: source.read(size), lambda out, value: _just(out.write(value))
    if kind == "enum":
        return _long, _put_long
    if kind != "record":
        raise ValueError(f"Avro has no type {kind}")
    parts = [(field["name"], *_codec(field["type"], names)) for field in schema["fields"]]

    def get(source: io.BytesIO) -> dict[str, Any]:
        return {name: decode(source) for name, decode, _ in parts}

    def put(out: io.BytesIO, value: Any) -> None:
        for name, _, encode in parts:
            encode(out, value[name])

    return get, put


def _union(branches: list[tuple[Read, Write]]) -> tuple[Read, Write]:
    def get(source: io.BytesIO) -> tuple[int, Any]:
        at = _long(source)
        return at, branches[at][0](source)

    def put(out: io.BytesIO, value: tuple[int, Any]) -> None:
        _put_long(out, value[0])
        branches[value[0]][1](out, value[1])

    return get, put


def _array(decode: Read, encode: Write) -> tuple[Read, Write]:
    def get(source: io.BytesIO) -> list[Any]:
        return [decode(source) for count in _counts(source) for _ in range(count)]

    def put(out: io.BytesIO, value: list[Any]) -> None:
        if value:
            _put_long(out, len(value))
            for each in value:
                encode(out, each)
        _put_long(out, 0)

    return get, put


def _map(decode: Read, encode: Write) -> tuple[Read, Write]:
    def get(source: io.BytesIO) -> list[tuple[str, Any]]:
        return [
            (_bytes(source).decode(), decode(source))
            for count in _counts(source)
            for _ in range(count)
        ]

    def put(out: io.BytesIO, value: list[tuple[str, Any]]) -> None:
        if value:
            _put_long(out, len(value))
            for key, each in value:
                _put_bytes(out, key.encode())
                encode(out, each)
        _put_long(out, 0)

    return get, put


def _pairs(source: io.BytesIO) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = _map(_bytes, _put_bytes)[0](source)
    return found


def _counts(source: io.BytesIO) -> Iterator[int]:
    """The sizes of the blocks of an array or map, as they are met."""
    while count := _long(source):
        if count < 0:  # then the size in bytes follows
            _long(source)
        yield abs(count)


def _long(source: io.BytesIO) -> int:
    value = shift = 0
    while True:
        byte = source.read(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def _put_long(out: io.BytesIO, value: int) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.write(bytes((left & 0x7F | 0x80,)))
        left >>= 7
    out.write(bytes((left,)))


def _bytes(source: io.BytesIO) -> bytes:
    size = _long(source)
    data = source.read(size)
    if len(data) != size:
        raise ValueError("the Avro file is truncated")
    return data


def _put_bytes(out: io.BytesIO, value: bytes) -> None:
    _put_long(out, len(value))
    out.write(value)


def _just(_: object) -> None:
    """For calls whose answer nobody needs."""


def _packed(form: str) -> tuple[Read, Write]:
    shape = struct.Struct(form)
    return (
        lambda source: shape.unpack(source.read(shape.size))[0],
        lambda out, value: _just(out.write(shape.pack(value))),
    )


_PLAIN: dict[str, tuple[Read, Write]] = {
    "null": (lambda _: None, lambda _, __: None),
    "boolean": _packed("<?"),
    "int": (_long, _put_long),
    "long": (_long, _put_long),
    "float": _packed("<f"),
    "double": _packed("<d"),
    "bytes": (_bytes, _put_bytes),
    "string": (lambda source: _bytes(source).decode(), lambda o, v: _put_bytes(o, v.encode())),
}
