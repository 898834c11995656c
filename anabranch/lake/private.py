"""The private parts of PyIceberg that Anabranch uses: all of them are here.

They are the session of a REST catalog, and how it makes what reads a table's files: there is no public
way to bound its requests or to send an ETag.  Each has a public way beside it, which is taken where the
private one is not there or not as it was.  That is noted once (see `missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.catalog.rest import Endpoints, RestCatalog
from pyiceberg.io import FileIO, load_file_io
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

from anabranch import missing
from anabranch.missing import Noting
from anabranch.redaction import remember_secrets

SIDE_BY_SIDE = 16  # requests
UNBOUNDED = "requests have no bound of their own, only whoever waits for them"
WHOLE = "each table is loaded whole whenever it is asked for"
PLAIN_IO = "files are read with what the catalog was attached with, and what it lends"


class PatientRest(RestCatalog):
    """A REST catalog that waits for so long and no longer.

    PyIceberg neither bounds its requests nor sends ETags, and keeps its session to itself.
    """

    def __init__(self, seconds: float, name: str, **properties: str) -> None:
        self._seconds = seconds
        self._bounded = False
        super().__init__(name, **properties)
        if not self._bounded:
            unused = AttributeError("nothing calls it")
            missing.note("RestCatalog._create_session", UNBOUNDED, unused)

    def _create_session(self) -> Session:
        session = super()._create_session()
        with Noting("RestCatalog._create_session", UNBOUNDED):
            for scheme in ("http://", "https://"):
                session.mount(scheme, _Bounded(self._seconds))
        self._bounded = True
        return session

    def ask(self, identifier: tuple[str, ...], tag: str) -> Response | None:
        """The answer for a table, which may be that it is as the tag says; None: load the table."""
        get: Callable[..., Response] | None = None
        with Noting("RestCatalog._session", WHOLE):
            path = self._split_identifier_for_path(identifier)
            address = self.url(Endpoints.load_table, prefixed=True, **path)
            get = self._session.get
        return get and get(address, headers={"If-None-Match": tag} if tag else {})

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
            remember_secrets(each)
        said_of = metadata.get("properties") or {}
        given = {**said_of, **config, **best}
        with Noting("RestCatalog._load_file_io", PLAIN_IO):
            return self._load_file_io(given, location)
        return load_file_io({**self.properties, **given}, location)


class _Bounded(HTTPAdapter):
    def __init__(self, seconds: float) -> None:
        super().__init__(pool_maxsize=SIDE_BY_SIDE)
        self._seconds = seconds

    def send(self, request: PreparedRequest, *given: Any, **named: Any) -> Response:
        named["timeout"] = named.get("timeout") or self._seconds
        return super().send(request, *given, **named)
