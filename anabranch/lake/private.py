"""What PyIceberg keeps to itself: the session of a REST catalog, and how it reads a table's files.

There is no public way to bound its requests or to send an ETag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.io import FileIO
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from anabranch.redaction import is_secret, remember

SIDE_BY_SIDE = 16  # requests


class PatientRest(RestCatalog):
    """A REST catalog that waits for so long and no longer.

    PyIceberg neither bounds its requests nor sends ETags, and keeps its session to itself.
    """

    def __init__(self, seconds: float, name: str, **properties: str) -> None:
        self._seconds = seconds
        super().__init__(name, **properties)

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Bounded(self._seconds))
        return session

    def ask(self, identifier: tuple[str, ...], tag: str) -> Response:
        path = self._split_identifier_for_path(identifier)
        address = self.url(Endpoints.load_table, prefixed=True, **path)
        return self._session.get(address, headers={"If-None-Match": tag} if tag else {})

    def io_for(self, metadata: Any, answer: Mapping[str, Any], location: str) -> FileIO:
        """With what the answer lends: the longest prefix of the credentials wins."""
        lent = [
            each
            for each in answer.get("storage-credentials") or ()
            if location.startswith(each.get("prefix", ""))
        ]
        best = max(lent, key=lambda each: len(each["prefix"]))["config"] if lent else {}
        config = answer.get("config") or {}
        for each in (config, best):
            for key, value in each.items():
                if is_secret(key):
                    remember(str(value))
        said_of = metadata.get("properties") or {}
        return self._load_file_io({**said_of, **config, **best}, location)


class _Bounded(HTTPAdapter):
    def __init__(self, seconds: float) -> None:
        super().__init__(pool_maxsize=SIDE_BY_SIDE)
        self._seconds = seconds

    def send(self, request: PreparedRequest, *given: Any, **named: Any) -> Response:
        named["timeout"] = named.get("timeout") or self._seconds
        return super().send(request, *given, **named)
