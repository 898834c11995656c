"""The route table: every route names its permission, and nothing else is served."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar
from urllib.parse import unquote_plus

from pydantic import BaseModel

from anabranch.catalog.tokens import Grants, Role
from anabranch.errors import InvalidValue
from anabranch.names import TableName
from anabranch.runtime import Runtime
from anabranch.serve.pins import Pins
from anabranch.serve.problems import bad_request, forbidden, of_the_request

LEVELS = "\x1f"  # what stands between the levels of a namespace in a path
Model = TypeVar("Model", bound=BaseModel)


class Access(Enum):
    """Who may ask: anybody; any token; or one with a role."""

    PUBLIC = "public"
    TOKEN = "token"
    READ = "reader"
    WRITE = "writer"
    ADMIN = "admin"

    @property
    def role(self) -> Role | None:
        return Role.parse(self.value) if self in ROLES else None


ROLES = (Access.READ, Access.WRITE, Access.ADMIN)


@dataclass(frozen=True)
class Answer:
    """Without a body: 204, unless it says otherwise."""

    body: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"

    @classmethod
    def of(cls, value: object, status: int = 200, **headers: str) -> Answer:
        given = {key.replace("_", "-"): text for key, text in headers.items()}
        return cls(json.dumps(value).encode(), status, given)


DONE = Answer(status=204)
NOT_MODIFIED = 304


@dataclass(frozen=True)
class Server:
    """What all requests share."""

    runtime: Runtime
    pins: Pins
    config: Mapping[str, str]  # what clients are told, such as credentials of an object store


@dataclass(frozen=True)
class Call:
    """One request that may be answered: its route's permission was checked."""

    server: Server
    grants: Grants
    given: Mapping[str, str]  # from the path, as it was sent: percent-encoded
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def runtime(self) -> Runtime:
        return self.server.runtime

    @property
    def prefix(self) -> str:
        return self.given.get("prefix", "")

    def text(self, key: str) -> str:
        """A part of the path.  Java writes a space as `+`, and everybody a plus as `%2B`."""
        return unquote_plus(self.given[key])

    @property
    def namespace(self) -> tuple[str, ...]:
        return namespace_in(self.given) or ()

    def name(self, key: str) -> TableName:
        return table_name(self.namespace, self.text(key))

    def need(self, role: Role, namespace: tuple[str, ...]) -> None:
        """For names that are not in the path: refuse who may not do this there."""
        need(self.grants, role, namespace)

    def read(self, model: type[Model]) -> Model:
        """The body as one of PyIceberg's models."""
        with of_the_request("the request cannot be read"):
            return model.model_validate_json(self.body or b"{}")

    def json(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body or b"{}")
        except ValueError as error:
            raise bad_request(f"the request is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise bad_request("the request is not a JSON object")
        return found


def namespace_in(given: Mapping[str, str]) -> tuple[str, ...] | None:
    """The namespace in a path, if there is one."""
    if "namespace" not in given:
        return None
    return tuple(unquote_plus(given["namespace"]).split(LEVELS))


def need(grants: Grants, role: Role, namespace: tuple[str, ...]) -> None:
    if not grants.allows(role, namespace):
        shown = ".".join(namespace)
        raise forbidden(f"this token lacks the role {role.name.lower()} in namespace {shown}")


def table_name(namespace: tuple[str, ...], name: str) -> TableName:
    if any("." in part for part in namespace):
        raise bad_request(f"{'.'.join(namespace)}: a level of a namespace may not hold a dot")
    try:
        return TableName(namespace, name)
    except InvalidValue as error:
        raise bad_request(error.message) from None


Act = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """`inside`: the permission is for the namespace in the path.  Otherwise it is needed in some
    namespace, and the act asks for it in each that the body names."""

    method: str
    path: str
    access: Access
    act: Act
    inside: bool = False

    @property
    def endpoint(self) -> str:
        """As `/v1/config` advertises it; empty for what is not Iceberg's."""
        found = self.path.removeprefix(ICEBERG)
        return f"{self.method} {found}" if found != self.path else ""


ICEBERG = "/iceberg"
