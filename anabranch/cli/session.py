"""What every command works with: where to connect, and how to speak."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.cli.output import JsonOutput, Notes, Output, TextOutput
from anabranch.cli.progress import Progress
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.api import Anabranch


@dataclass
class CliSession:
    home: str | None = None
    catalog: str | None = None
    warehouse: str | None = None
    verbose: bool = False
    progress: Progress = field(default_factory=Progress)

    def settings(self) -> Settings:
        given: dict[str, Any] = {"warehouse": self.warehouse, "verbose": self.verbose or None}
        chosen = {name: value for name, value in given.items() if value is not None}
        return Settings.load(self.catalog or self.home, **chosen)

    def output(self, json: bool) -> Output:
        return JsonOutput(self.verbose) if json else TextOutput(self.verbose)

    def note(self, text: str) -> None:
        Notes(self.verbose).note(text)

    @cached_property
    def ab(self) -> Anabranch:
        """Connected at first use; Spark starts only when a command needs it."""
        return self.connect(self.settings())

    def connect(self, settings: Settings) -> Anabranch:
        import anabranch

        if not self.verbose:  # it logs a traceback when a running statement is interrupted
            logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
        ab = anabranch.connect(settings)
        ab.on_progress = self.progress
        return ab

    def close(self) -> None:
        self.progress.clear()
        if "ab" in self.__dict__:
            self.ab.close()
