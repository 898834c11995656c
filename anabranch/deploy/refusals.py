"""What stage will refuse to do: `plan` lists it, and stage raises the first that nobody agreed to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from anabranch.deploy.plan import Plan, Refusal
from anabranch.deploy.readers import FAILS, Reader
from anabranch.deploy.snapshot import ObjectKey, Snapshot
from anabranch.deploy.source_tables import changes
from anabranch.deploy.steps import Action
from anabranch.errors import AnabranchError, Refused
from anabranch.lake.schemas import altered
from anabranch.names import TableName
from anabranch.refresh.observe import CatalogState
from anabranch.runtime import Runtime

DROP_TABLES, DROP_MOST, SUSPEND_READERS = "drop_tables", "drop_most", "suspend_readers"


SHOWN = 5  # objects that an error names


def refusals(runtime: Runtime, seen: CatalogState, plan: Plan) -> Iterator[Refusal]:
    """Everything that can be told before anything is built."""
    failing = {reader.name: reader.error or "" for reader in broken(plan.readers)}
    if failing:
        views = [reader.name for reader in broken(plan.readers) if reader.kind == "view"]
        yield Refusal(breaks(failing, views), SUSPEND_READERS)
    for key in plan.keys(Action.DROP, Action.SWAP):
        if _loses_rows(plan, key):
            error = Refused(
                f"{key} is a source table and would be dropped with its rows",
                hint="`anabranch stage --drop-tables` drops it when it is promoted",
            )
            yield Refusal(error, DROP_TABLES)
    coming, going = ({key.table for key in plan.keys(each)} for each in (Action.SWAP, Action.DROP))
    for error in alike(coming, {*seen.pointers, *seen.views}.difference(going)):
        yield Refusal(error)
    for key in plan.keys(Action.ALTER):
        try:
            version = runtime.lake.version(key.table, seen.pointers[key.table])
            altered(version.metadata, key.table, changes(plan.new.objects[key], version.columns))
        except AnabranchError as error:
            yield Refusal(error)


def dropping_most(project: str, deployed: Snapshot, plan: Plan) -> Iterator[Refusal]:
    """A checkout of another repository may have got the same name, and share a table or two with it."""
    gone = sorted(deployed.objects.keys() & {*plan.keys(Action.DROP)})
    if len(gone) > 1 and 2 * len(gone) > len(deployed.objects) and plan.new.objects:
        error = Refused(
            f"{len(gone)} of the {len(deployed.objects)} objects deployed as {project} would be "
            f"dropped: {', '.join(map(str, gone[:SHOWN]))}{' …' if len(gone) > SHOWN else ''}",
            hint="if another repository has deployed them, give this project another name in "
            "anabranch.toml; if they are to go, `anabranch stage --drop-most`",
        )
        yield Refusal(error, DROP_MOST)


def alike(coming: Collection[TableName], known: Iterable[TableName]) -> Iterator[Refused]:
    """Names are matched without regard to case, so one that differs in nothing else is taken."""
    staying = {name.folded: name for name in known if name not in coming}
    for name in sorted(coming):
        if name.folded in staying:
            yield Refused(
                f"{staying[name.folded]} is there, and {name} differs from it in case only",
                hint=f"drop {staying[name.folded]} first, or choose another name",
            )


def _loses_rows(plan: Plan, key: ObjectKey) -> bool:
    before, after = plan.old.objects.get(key), plan.new.objects.get(key)
    if before is None or before.kind != "table":
        return False
    return after is None or after.kind != "table"


def broken(readers: Iterable[Reader]) -> list[Reader]:
    """Readers that would have to be suspended, and views that would break."""
    return [each for each in readers if each.outcome == FAILS]


def breaks(
    found: Mapping[TableName, str], views: Collection[TableName] = (), cure: str = "change"
) -> Refused:
    first, why = next(iter(sorted(found.items())))
    others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    then = "break" if first in views else "be suspended"
    return Refused(
        f"{first} is outside the project and cannot follow: {why}{others}",
        hint=f"{cure} or drop it first, or let it {then} with --suspend-readers",
    )
