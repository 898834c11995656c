"""Requests to the server: every route, right and then spoilt in path, parameters, headers and body."""

from __future__ import annotations

import copy
import json
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from anabranch.serve.routes import Route
from anabranch.serve.server import ROUTES
from tests.fuzz.values import LETTERS, nested, text

RIGHT: Mapping[str, Sequence[str]] = {
    "prefix": (*["latest"] * 12, "cut-1", "cut-5", "cut-999999"),
    "namespace": (*["s"] * 16, "made", "s%1Fx", "default", "system"),
    "table": ("t", "t", "t", "u", "u", "d", "e", "v", "new", "newer", "nothing"),
    "view": ("v", "v", "w", "x", "t", "nothing"),
}
PARAMETERS = {
    "pageToken": ("", "a", "zzz"),
    "pageSize": ("1", "0", "-1", "1e9", "٣", "99999999999999999999"),
    "parent": ("s", "s%1Fx", "%1F", ""),
    "snapshots": ("all", "refs", "some"),
    "warehouse": ("latest", "pinned", "cut:1", "cut:0", "cut:99999999999999999999", "cut:x"),
    "purgeRequested": ("true", "no"),
}
DEEP = "<deep>"  # stands for what is nested deeper than Python's own encoder goes
ODD_JSON: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 2**31,
    lambda: 2**63,
    lambda: -(2**70),
    lambda: 10**400,
    lambda: 0.5,
    lambda: 1e308,
    lambda: float("nan"),
    lambda: float("-inf"),
    lambda: "",
    lambda: "x",
    lambda: "s",
    lambda: "\0",
    lambda: "\ud800",
    lambda: "a\x1fb.c",
    lambda: "file:///nowhere/metadata.json",
    lambda: "/proc/self/environ",
    lambda: "../../x",
    lambda: "s3://u:p@bucket/x",
    lambda: "x" * 5_000,
    list,
    dict,
    lambda: [None],
    lambda: {"": None},
    lambda: {"a": {"b": []}},
    lambda: nested(40),
    lambda: DEEP,
)


@dataclass(frozen=True)
class Asked:
    """A request as it goes over the wire."""

    method: str
    path: str
    head: bytes
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path[:300]} {self.body[:1500]!r}"


@dataclass(frozen=True)
class Told:
    status: int
    body: bytes


def request(rng: random.Random, known: Mapping[str, Any], token: str) -> Asked:
    """`known` are the metadata of a table and of a view, so that a right body can be made."""
    route = rng.choice(ROUTES)
    method = rng.choice(("GET", "POST", "PUT", "PATCH", "OPTIONS", "x", route.method))
    method = route.method if rng.random() < 0.95 else method
    path = _path(rng, route.path)
    body = _body(rng, route, known)
    return Asked(method, path, _head(rng, method, path, body, token), body)


def _path(rng: random.Random, path: str) -> str:
    for name, right in RIGHT.items():
        odd = rng.random() < 0.04
        path = path.replace(f"{{{name}}}", _odd_part(rng) if odd else rng.choice(right))
    if rng.random() < 0.02:
        path = path.replace("/v1/", rng.choice(("/", "//", "/v2/", "/v1/../", "/v1/%2e%2e/")))
    given = [
        f"{name}={_odd_part(rng) if rng.random() < 0.2 else rng.choice(right)}"
        for name, right in PARAMETERS.items()
        if rng.random() < 0.1
    ]
    if rng.random() < 0.03:
        given.append(_odd_part(rng))
    return path + ("?" + "&".join(given) if given else "")


def _odd_part(rng: random.Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(("%", "%zz", "%ff%fe", "%00", "%ed%a0%80", "..", "", "%2F", "a%2Eb", "+"))
    if kind == 1:
        return "".join(f"%{rng.randrange(256):02x}" for _ in range(rng.randrange(1, 6)))
    return quote(text(rng).encode("utf-8", "surrogatepass")[:2_000], safe="!$'()*,;:@")


def _head(rng: random.Random, method: str, path: str, body: bytes, token: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close"]
    chance = rng.random()
    if chance < 0.94:
        lines.append(f"Authorization: Bearer {token}")
    elif chance < 0.98:
        odd = rng.choice(("Bearer", "Bearer ", "Basic eDp5", f"Bearer {token}x", "é" * 50, "\t"))
        lines.append(f"Authorization: {odd}")
    if rng.random() < 0.1:
        odd = rng.choice(('W/"x"', "*", ",,,", "é", '"' * 50, "x" * 5_000))
        lines.append(f"If-None-Match: {odd}")
    if rng.random() < 0.1:
        kind = rng.choice(
            ("text/html", "application/xml; charset=utf-7", "multipart/form-data", "")
        )
        lines.append(f"Content-Type: {kind}")
    length: object = len(body)
    if rng.random() < 0.02:
        length = rng.choice(("-1", "x", "1e3", "", "0x10", max(0, len(body) - 3)))
    lines.append(f"Content-Length: {length}")
    if rng.random() < 0.02:
        lines.append(
            rng.choice(("Expect: 100-continue", "Transfer-Encoding: x", "X" * 3_000, ": "))
        )
    return "\r\n".join([*lines, "", ""]).encode("utf-8")


# -- bodies --------------------------------------------------------------------------------------


def _body(rng: random.Random, route: Route, known: Mapping[str, Any]) -> bytes:
    if route.method not in ("POST", "PUT"):
        return b"" if rng.random() < 0.9 else b"{}"
    right = _right(rng, route, known)
    chance = rng.random()
    if chance < 0.6:
        for _ in range(rng.choice((1, 1, 2, 4))):
            right = spoilt(rng, right)
    body = json.dumps(right).encode("utf-8", "surrogatepass")
    body = body.replace(f'"{DEEP}"'.encode(), b"[" * 3_000 + b"]" * 3_000)
    if 0.9 < chance < 0.95:
        at = rng.randrange(len(body) + 1)
        odd = rng.choice(LETTERS).encode("utf-8", "surrogatepass")
        body = body[:at] + odd + body[at + rng.randrange(3) :]
    if chance > 0.97:
        broken = (b"", b"\xff\xfe", b"null", b"[]", b"1", b"{" * 20_000, b"[" * 20_000, body[:-1])
        body = rng.choice((*broken, body.decode("latin-1").encode("utf-16")))
    return body


def spoilt(rng: random.Random, given: Any) -> Any:
    """The same with one value of it lost, doubled, or replaced by something else."""
    changed = copy.deepcopy(given)
    places = list(_places(changed))
    if not places:
        return rng.choice(ODD_JSON)()
    inside, key = rng.choice(places)
    kind = rng.randrange(5)
    if kind == 0:
        del inside[key]
    elif kind == 1 and isinstance(inside, list):
        inside.append(copy.deepcopy(inside[key]))
    elif kind == 2 and isinstance(inside, dict):
        inside[rng.choice((text(rng), "x", "type", "action"))] = inside.pop(key)
    elif kind == 3:
        other, at = rng.choice(places)
        inside[key] = copy.deepcopy(other[at])
    else:
        inside[key] = rng.choice(ODD_JSON)()
    return changed


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        keys: Sequence[Any] = list(value)
    elif isinstance(value, list):
        keys = range(len(value))
    else:
        return
    for key in keys:
        yield value, key
        yield from _places(value[key])


SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "k", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "string", "doc": "x"},
        {
            "id": 3,
            "name": "deep",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 4,
                "key": "string",
                "value-id": 5,
                "value": {
                    "type": "list",
                    "element-id": 6,
                    "element": "int",
                    "element-required": True,
                },
                "value-required": False,
            },
        },
        {"id": 7, "name": "price", "required": False, "type": "decimal(9,2)"},
    ],
    "identifier-field-ids": [],
}
SPEC = {
    "spec-id": 0,
    "fields": [{"source-id": 1, "field-id": 1000, "name": "k_bucket", "transform": "bucket[4]"}],
}
ORDER = {
    "order-id": 1,
    "fields": [
        {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    ],
}
VIEW_VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1,
    "summary": {"engine-name": "x"},
    "default-catalog": "served",
    "default-namespace": ["s"],
    "representations": [{"type": "sql", "sql": "SELECT k FROM t", "dialect": "spark"}],
}


def _right(rng: random.Random, route: Route, known: Mapping[str, Any]) -> Any:
    ending = route.path.rpartition("/")[2]
    if ending == "namespaces":
        return {"namespace": ["made", rng.choice("abc")], "properties": {"owner": "x"}}
    if ending == "properties":
        return {"removals": ["owner"], "updates": {"comment": "x"}}
    if ending == "register":
        place = known["table"]["location"] + "/metadata/x.metadata.json"
        return {"name": "new", "metadata-location": place, "overwrite": rng.random() < 0.5}
    if ending == "rename":
        end = {"namespace": ["s"], "name": rng.choice(("u", "v", "new", "w"))}
        return {"source": end, "destination": {"namespace": ["s"], "name": "moved"}}
    if ending == "commit":
        changes = [
            {"identifier": {"namespace": ["s"], "name": name}, **_commit(rng, known["table"])}
            for name in rng.sample(("t", "u", "new"), rng.choice((1, 2)))
        ]
        return {"table-changes": changes}
    if ending == "tables":
        return {
            "name": rng.choice(("new", "newer", "t")),
            "schema": SCHEMA,
            "partition-spec": SPEC,
            "write-order": ORDER,
            "stage-create": rng.random() < 0.5,
            "properties": {"format-version": rng.choice(("1", "2", "3", "x")), "a": "b"},
        }
    if ending == "views":
        name = rng.choice(("w", "x"))
        return {
            "name": name,
            "schema": SCHEMA,
            "view-version": VIEW_VERSION,
            "properties": {"a": "b"},
        }
    if ending == "{view}":
        return {
            "requirements": [{"type": "assert-view-uuid", "uuid": known["view"]["view-uuid"]}],
            "updates": rng.sample(_view_updates(), rng.randrange(1, 4)),
        }
    return _commit(rng, known["table"])


def _view_updates() -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": "file:///tmp/x"},
        {"action": "set-properties", "updates": {"a": "c"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "add-view-version", "view-version": VIEW_VERSION},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def _commit(rng: random.Random, table: Mapping[str, Any]) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": rng.randrange(1, 2**60),
        "parent-snapshot-id": table.get("current-snapshot-id"),
        "sequence-number": table.get("last-sequence-number", 0) + 1,
        "timestamp-ms": 1_900_000_000_000,
        "manifest-list": table["location"] + "/metadata/snap-1.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    updates: list[dict[str, Any]] = [
        {"action": "assign-uuid", "uuid": table["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 7},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": SPEC},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": ORDER},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "add-snapshot", "snapshot": snapshot},
        {
            "action": "set-snapshot-ref",
            "ref-name": rng.choice(("main", "b")),
            "type": rng.choice(("branch", "tag")),
            "snapshot-id": rng.choice((snapshot["snapshot-id"], table.get("current-snapshot-id"))),
        },
        {"action": "remove-snapshot-ref", "ref-name": rng.choice(("main", "b"))},
        {"action": "remove-snapshots", "snapshot-ids": [table.get("current-snapshot-id")]},
        {"action": "set-location", "location": table["location"]},
        {"action": "set-properties", "updates": {"a": "b", "write.metadata.path": "/nowhere"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-statistics", "snapshot-id": 1, "statistics": {"snapshot-id": 1}},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
        {"action": "add-encryption-key", "encryption-key": {}},
    ]
    requirements: list[dict[str, Any]] = [
        {"type": "assert-create"},
        {"type": "assert-table-uuid", "uuid": table["table-uuid"]},
        {
            "type": "assert-ref-snapshot-id",
            "ref": "main",
            "snapshot-id": table.get("current-snapshot-id"),
        },
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ]
    return {
        "requirements": rng.sample(requirements, rng.choice((0, 1, 2))),
        "updates": rng.sample(updates, rng.choice((1, 1, 2, 4))),
    }


# -- the wire ------------------------------------------------------------------------------------


def ask(address: str, asked: Asked) -> Told:
    """Sent byte by byte as it is: no client's library mends it before."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(asked.head + asked.body)
        found = bytearray()
        while piece := wire.recv(65_536):
            found += piece
    whole = bytes(found)
    if whole.startswith(b"HTTP/1.1 100 "):  # go on, and then the answer
        whole = whole.partition(b"\r\n\r\n")[2]
    head, _, body = whole.partition(b"\r\n\r\n")
    return Told(int(head.split(b" ")[1]) if head else 0, body)
