"""How a stream table is kept, in words: for people who want to know before they trust."""

from __future__ import annotations

from anabranch.delta.explain import explain as explain_kept
from anabranch.delta.maintenance import ByRows, Combine, Maintenance
from anabranch.names import TableName
from anabranch.plan.nodes import Given, Scan, Version
from anabranch.plan.walk import tables
from anabranch.refresh.definition import Definition, define
from anabranch.refresh.run import look_now, resolve, world_of
from anabranch.runtime import Runtime
from anabranch.sql.render import to_sql


def explain(runtime: Runtime, name: TableName) -> str:
    """Query, plan, delta plan, Spark SQL, hidden columns, and what is not incremental and why."""
    name = resolve(runtime, name)
    seen = look_now(runtime)
    stream = seen.streams[name]
    definition = define(world_of(runtime, seen), stream.query)
    columns = ", ".join(f"{column.name} {column.type}" for column in definition.columns)
    sections = [
        f"stream table {name} ({columns})",
        f"refresh mode: {stream.refresh_mode.value}",
        f"reads: {', '.join(str(source) for source in sorted(definition.sources))}",
        f"query:\n{_indented(stream.query)}",
    ]
    if definition.obstacles:
        sections.append(_obstacles(definition))
    if definition.kept is not None:
        sections.append("incremental: yes")
        sections.append(explain_kept(definition.kept))
        if isinstance(definition.kept, ByRows) and definition.hidden:
            hidden = "\n".join(f"{column.name} {column.type}" for column in definition.hidden)
            sections.append(f"hidden columns:\n{_indented(hidden)}")
        sections.append(f"Spark SQL of the change:\n{_indented(spark_sql(definition.kept))}")
    return "\n".join(sections)


def spark_sql(kept: Maintenance) -> str:
    """The SQL that computes the change, if every source changed."""
    changed = tables(kept.full)
    if isinstance(kept, ByRows):
        node = kept.delta(changed)
    elif isinstance(kept, Combine):
        node = kept.change(changed)
    else:
        node = kept.touched(changed)
    return to_sql(node, _shown, "spark") if node is not None else "-- nothing can change"


def _shown(leaf: Scan | Given) -> str:
    if isinstance(leaf, Given):
        return leaf.name
    return str(leaf.table) if leaf.version is Version.NOW else f"{leaf.table}@{leaf.version.value}"


def _obstacles(definition: Definition) -> str:
    lines = [
        f"{obstacle}\n  operator: {obstacle.operator}\n  hint: {obstacle.hint}"
        for obstacle in definition.obstacles
    ]
    return "incremental: no, it is recomputed in full:\n" + _indented("\n".join(lines))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
