"""Writes docs/images/demo.svg: runs the demo and draws what it prints, as a terminal shows it.

`python tools/demo_picture.py` takes half a minute.  The picture names the reader's own monospaced
font and asks nothing of a network.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from anabranch.cli.session import CliSession
from anabranch.demo.show import WIDTH, Stage

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "demo.svg"
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
FORMAT = re.sub(r"(?s)@font-face \{\{.*?\n    \}\}\s*", "", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", FONTS
)
PLAIN = ((76, 86, 106), (235, 111, 120), (152, 203, 122), (229, 192, 123))
BRIGHT = ((97, 175, 239), (198, 120, 221), (94, 196, 206), (216, 222, 233))
THEME = TerminalTheme((24, 28, 36), (216, 222, 233), [*PLAIN, *BRIGHT])


def excerpt(shown: str) -> str:
    """The beginning, two rounds and the proof: one screen.  What follows names this machine."""
    parts = re.split(r"\n(?=\x1b\[1m(?:Round|Proof))", shown[: shown.rindex("╭")])
    opening, rounds, proof = parts[0], parts[1:-1], parts[-1]
    more = "\x1b[2m…\x1b[0m\n"
    proof = proof.rpartition("\x1b")[0].rstrip()
    return "\n".join((opening, rounds[0], more, rounds[-1], proof))


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    session = CliSession()
    stage = Stage(session)
    stage.console = Console(
        highlight=False, emoji=False, record=True, force_terminal=True, width=WIDTH
    )
    with redirect_stdout(StringIO()):
        try:
            if not stage.play():
                raise SystemExit("the demo failed")
        finally:
            session.close()
    shown = excerpt(stage.console.export_text(styles=True))
    picture = Console(file=StringIO(), record=True, width=WIDTH)
    picture.print(Text.from_ansi(shown), end="\n\n")
    OUT.write_text(
        picture.export_svg(title="anabranch demo", theme=THEME, code_format=FORMAT), "utf-8"
    )


if __name__ == "__main__":
    main()
