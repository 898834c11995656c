"""What every command works with: where to connect, and how to speak."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.api import Anabranch, connect
from anabranch.cli.interrupts import Interrupts
from anabranch.cli.output import JsonOutput, Notes, Output, TextOutput
from anabranch.cli.progress import Progress
from anabranch.errors import UserError
from anabranch.redaction import hide
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.session import Session


@dataclass
class CliSession:
    home: str | None = None
    catalog: str | None = field(default=None, repr=False)  # it may hold a password
    warehouse: str | None = None
    verbose: bool = False
    creates: bool = False  # whether a home that is not there is made
    project: Path | None = None  # the settings file of the project that a command works on
    profile: str | None = None
    progress: Progress = field(default_factory=Progress)

    def settings(self) -> Settings:
        given: dict[str, Any] = {"warehouse": self.warehouse, "verbose": self.verbose or None}
        given["profile"] = self.profile
        chosen = {name: value for name, value in given.items() if value is not None}
        place = self.catalog or self.home
        return Settings.load(place, None if place else self.project, **chosen)

    def output(self, json: bool) -> Output:
        return JsonOutput(self.verbose) if json else TextOutput(self.verbose)

    def note(self, text: str) -> None:
        Notes(self.verbose).note(text)

    @cached_property
    def ab(self) -> Anabranch:
        """Connected at first use; Spark starts only when a command needs it."""
        settings = self.settings()
        if not self.creates and settings.has_home and not Path(settings.home).exists():
            raise UserError(
                f"there is no catalog in {settings.home}",
                hint="`anabranch init` creates one; --home names another folder",
            )
        return self.connect(settings)

    @property
    def opened(self) -> Session:
        """The same, for verbs that take more than texts."""
        return self.ab._session

    def connect(self, settings: Settings) -> Anabranch:
        self._listen()
        settings.create_home()
        ab = connect(settings)

        def cancel() -> None:
            ab.spark.interruptAll()

        interrupts = Interrupts(cancel)

        def watch(event: str, data: Mapping[str, Any]) -> None:
            self.progress(event, data)
            interrupts(event, data)

        ab.on_progress = watch
        return ab

    def _listen(self) -> None:
        """Show what Anabranch has to say; Spark's client would log tracebacks of what is raised."""
        if self.verbose:
            return
        logging.getLogger().addHandler(logging.NullHandler())
        ours = logging.getLogger("anabranch")
        ours.propagate = False
        ours.handlers = [NoteHandler(self.note)]

    def close(self) -> None:
        self.progress.clear()
        if "ab" in self.__dict__:
            self.ab.close()


class NoteHandler(logging.Handler):
    """Notices and warnings as notes."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(hide(f"notice: {record.getMessage()}"))
