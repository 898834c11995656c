"""Why the stored rows of a stream table are no longer what its query means."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from anabranch.catalog.streams import Input, StreamTable
from anabranch.errors import AnabranchError
from anabranch.names import TableName
from anabranch.refresh.columns import differences
from anabranch.refresh.decide import TIME_PASSED
from anabranch.refresh.definition import Definition
from anabranch.refresh.editions import refuse_newer
from anabranch.refresh.observe import view_mark
from anabranch.world import World

Inputs = Mapping[TableName, Input]  # what the table has read


def redefined(
    world: World, stream: StreamTable, definition: Definition, known: Inputs
) -> str | None:
    if stream.fingerprint == definition.fingerprint and definition.sources <= known.keys():
        return None
    if definition.moment is None:
        refuse_newer(stream)
    causes = changed_below(world, definition, known)
    if not causes and definition.moment is not None:
        return f"{TIME_PASSED}{definition.moment}"
    return "; ".join(causes) or "the query, or the way it is read or kept, changed"


def changed_below(world: World, definition: Definition, known: Inputs) -> list[str]:
    """What is not as it was of what the query reads."""
    return [*views_replaced(world, definition, known), *_columns(world, definition, known)]


def views_replaced(world: World, definition: Definition, known: Inputs) -> list[str]:
    return [
        f"view {view} was replaced"
        for view in sorted(definition.views & known.keys())
        if known[view].metadata_location != view_mark(world.views[view])
    ]


def _columns(world: World, definition: Definition, known: Inputs) -> list[str]:
    causes = []
    for name in sorted(definition.sources & known.keys()):
        location = known[name].metadata_location
        with suppress(AnabranchError):  # old metadata may be gone, and the reason is only told
            if location is not None:
                old = world.lake.version(name, location).columns
                found = ", ".join(differences(old, world.version(name).columns))
                causes += [f"columns of {name} changed: {found}"] if found else []
    return causes
