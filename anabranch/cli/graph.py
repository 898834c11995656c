"""How the command line shows the graph: which drawing, in which colours."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.cli.output import coloured
from anabranch.cli.session import CliSession
from anabranch.errors import UserError
from anabranch.graph.drawing.dot import dot
from anabranch.graph.drawing.mermaid import mermaid
from anabranch.graph.drawing.svg import svg
from anabranch.graph.drawing.tree import ASCII, UNICODE, Line, Signs, tree
from anabranch.graph.picture import Picture

STYLES: dict[str, dict[str, Any]] = {
    "ACTIVE": {"fg": "green"},
    "SUSPENDED": {"fg": "yellow"},
    "ERROR": {"fg": "red", "bold": True},
    "INITIALIZING": {"fg": "blue"},
    "table": {"bold": True},
    "group": {"fg": "cyan"},
    "heading": {"bold": True},
    "source": {"dim": True},
    "rail": {"dim": True},
    "before": {"dim": True},
    "note": {"dim": True},
}
STDOUT = "-"


def drawn(picture: Picture, form: str | None) -> str:
    if form == "dot":
        return dot(picture)
    if form == "mermaid":
        return mermaid(picture)
    if form == "svg":
        return svg(picture)
    return painted(tree(picture, signs_for(sys.stdout.encoding)))


def painted(lines: Sequence[Line]) -> str:
    """With colours, which are taken out again where they would not be seen."""
    return "\n".join(
        "".join(coloured(span.text, **STYLES.get(span.style, {})) for span in line)
        for line in lines
    )


def signs_for(encoding: str | None) -> Signs:
    try:
        "".join(vars(UNICODE).values()).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def write_svg(session: CliSession, picture: Picture, file: str) -> None:
    try:
        Path(file).write_text(svg(picture) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from error
    session.note(f"wrote {file}")
