"""What an error carries besides its words: frames, whose variables hold what was passed to them.

Programs that report errors print the variables of every frame, and ours hold addresses with their
passwords, those of a driver whole connection strings.  An error that leaves us keeps its frames,
which say where it happened, and loses what stood in them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType

from anabranch.errors import AnabranchError
from anabranch.redaction import hide, redacted


class Reworded(Exception):
    """What another library raised, in its words but for the secrets in them."""


def forget_values(error: BaseException, until: BaseException | None = None) -> None:
    """Empty the frames of an error and of those behind it, and blank secrets in their words.

    `until` is what the caller was handling when it called us: that, and what is behind it, is the
    caller's own.
    """
    running = set(_stack())
    done = {id(until)}
    open_ = [error]
    while open_:
        at = open_.pop()
        if id(at) in done:
            continue
        done.add(id(at))
        _empty_frames(at, running)
        _blank(at)
        _reword_causes(at, until)
        open_ += [
            each for each in (at.__cause__, at.__context__, *_grouped(at)) if each is not None
        ]


def for_a_log(error: BaseException) -> BaseException:
    """The error as it may be logged with its traceback, whoever reads the log."""
    forget_values(error)
    return _reworded(error)


def _stack() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _empty_frames(error: BaseException, running: set[FrameType]) -> None:
    """One that goes on elsewhere, in another thread, cannot be emptied: it is left out."""
    before, at = None, error.__traceback__
    while at is not None:
        try:
            at.tb_frame.clear()
            kept = True
        except RuntimeError:
            kept = at.tb_frame in running
        if kept:
            before = at
        elif before is None:
            error.__traceback__ = at.tb_next
        else:
            before.tb_next = at.tb_next
        at = at.tb_next


def _blank(error: BaseException) -> None:
    """Words that were written before the secret was known to be one."""
    if isinstance(error, AnabranchError) and hide(str(error)) != str(error):
        error.message, error.hint = hide(error.message), error.hint and hide(error.hint)
        error.args = (error.message,)
    notes = getattr(error, "__notes__", None)
    if isinstance(notes, list):
        notes[:] = [hide(str(each)) for each in notes]


def _reword_causes(error: BaseException, until: BaseException | None) -> None:
    cause, context, suppressed = error.__cause__, error.__context__, error.__suppress_context__
    told = cause if cause is None or cause is until else _reworded(cause)
    behind = context if context is None or context is until else _reworded(context)
    if context is cause:
        behind = told
    if told is not cause or behind is not context:
        error.__cause__, error.__context__ = told, behind
        error.__suppress_context__ = suppressed  # which naming a cause would set


def _reworded(error: BaseException) -> BaseException:
    """The error itself, unless its words tell a secret."""
    if isinstance(error, AnabranchError):
        return error  # its words are blanked where they stand
    said = _words(error)
    if hide(said) == said and redacted(said) == said:
        return error
    made = Reworded(f"{type(error).__module__}.{type(error).__qualname__}: {_plain(str(error))}")
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _words(error: BaseException) -> str:
    """All that is printed of it; an error of others may fail to say what it is."""
    try:
        notes = getattr(error, "__notes__", None) or ()
        return "\n".join((str(error), repr(error), *map(str, notes)))
    except Exception:
        return ""


def _plain(text: str) -> str:
    return redacted(hide(text))


def _grouped(error: BaseException) -> tuple[BaseException, ...]:
    """The errors of a group, which Python has from 3.11 on."""
    found = getattr(error, "exceptions", ())
    if not isinstance(found, tuple):
        return ()
    return tuple(each for each in found if isinstance(each, BaseException))
