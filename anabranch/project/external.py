"""External tables of a project as they are now, against the lock of their columns."""

from __future__ import annotations

from anabranch.errors import Refused
from anabranch.lake.foreign import require
from anabranch.model import Columns
from anabranch.names import TableName
from anabranch.project.lock import external_names
from anabranch.project.records import Files
from anabranch.runtime import Runtime


def external_columns(runtime: Runtime, files: Files) -> dict[TableName, Columns]:
    """The columns of these tables, as they are now."""
    names = external_names(files)
    if not names:
        return {}
    require(runtime.lake, names)
    world = runtime.world(fresh=names)
    return {name: world.version(name).columns for name in names}


def check_lock(runtime: Runtime, files: Files) -> None:
    """Refuse a project whose external tables no longer have what it was compiled against."""
    for name, columns in sorted(external_columns(runtime, files).items()):
        there = {column.name: column.type for column in columns}
        for column, type_ in files.external.get(str(name), ()):
            if there.get(column) == type_:
                continue
            now = f"is {there[column]}" if column in there else "is gone"
            raise Refused(
                f"column {column} of {name} {now}; the project was compiled against {type_}",
                hint="`anabranch lock` takes the columns over as they are; then compile again",
            )
