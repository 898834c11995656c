"""How a stream table is kept, in words: for people who want to know before they trust."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.catalog.indexes import Index, all_indexes
from anabranch.catalog.streams import StreamTable
from anabranch.cut_view import CutView
from anabranch.delta.explain import explain as explain_kept
from anabranch.delta.explain import explain_rules
from anabranch.delta.maintenance import ByRows, Combine, Maintenance
from anabranch.errors import BaseExpired, NewerEdition
from anabranch.names import TableName, shown
from anabranch.plan.nodes import Node, Parameter, Scan, Version
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.show import show
from anabranch.plan.statistics import NOTHING
from anabranch.plan.walk import tables
from anabranch.refresh.cycles import Members, component_of, path
from anabranch.refresh.decide import DecisionInputs, decide, seconds
from anabranch.refresh.definition import Definition, costly_recursions, define
from anabranch.refresh.indexes import observe_index
from anabranch.refresh.inputs import decision_inputs, gather, remember
from anabranch.refresh.lineage import explained
from anabranch.refresh.maintained import hidden_of
from anabranch.refresh.members import (
    MemberTable,
    member_definition,
    redefined,
    rule_of,
    tampered,
)
from anabranch.refresh.observe import CatalogState, observe_now
from anabranch.refresh.publish_sets import world_of
from anabranch.refresh.run import resolve
from anabranch.refresh.sources import Sources
from anabranch.runtime import Runtime
from anabranch.sql.obstacles import Obstacle
from anabranch.sql.render import to_sql


def explain(runtime: Runtime, name: TableName, *, rules: bool = False) -> str:
    """Query, next refresh, plan, delta plan, Spark SQL, hidden columns; what is not incremental.

    `rules`: also the plan after each rule of the optimizer that changed it.
    """
    name = resolve(runtime, name)
    state = observe_now(runtime)
    stream = state.streams[name]
    world = world_of(runtime, state)
    definition = define(world, stream.query)
    columns = ", ".join(f"{column.name} {column.type}" for column in definition.columns)
    sections = [
        f"stream table {name} ({columns})",
        f"refresh mode: {stream.refresh_mode.value}",
        f"reads: {', '.join(str(source) for source in sorted(definition.sources))}",
        *_together(state, name),
        *_cut(state, name),
        *_indexes(runtime, world, name),
        f"query:\n{_indented(stream.query)}",
        *explained(definition.lineage),
    ]
    component = component_of(state.reads, name)
    if component is not None:
        lines = explain_member(world, state, stream, component)
        return "\n".join([*sections, *lines, *(_rules(definition, None) if rules else [])])
    if name in world.pointers:  # another program may have dropped it
        sections.append(_next(lambda: foresee(runtime, world, state, stream, definition)))
    if definition.obstacles:
        sections.append(_obstacles(definition, world))
    if definition.kept is not None:
        sections.append("incremental: yes")
        sections += [f"note: {each}" for each in costly_recursions(definition)]
        sections.append(explain_kept(definition.kept))
        if isinstance(definition.kept, ByRows) and definition.hidden:
            hidden = "\n".join(f"{column.name} {column.type}" for column in definition.hidden)
            sections.append(f"hidden columns:\n{_indented(hidden)}")
        sections.append(f"Spark SQL of the change:\n{_indented(spark_sql(definition.kept))}")
    if rules:
        exists = name in world.pointers
        sources = gather(world, state, {name: definition}).sources if exists else None
        sections += _rules(definition, sources)
    return "\n".join(sections)


def _rules(definition: Definition, sources: Sources | None) -> list[str]:
    """The plans as the optimizer changes them, with what is known of the tables now."""
    if definition.written is None:
        return []
    if sources is None:
        return [explain_rules(definition.written, None, lambda node: NOTHING)]
    return [explain_rules(definition.written, definition.kept, sources.statistics)]


def _together(state: CatalogState, name: TableName) -> list[str]:
    """The group and the component that the table moves with."""
    group = next(each for each in state.groups if name in each.members)
    epoch = max(state.streams[each].epoch or 0 for each in group.members)
    if group.is_singleton:
        return [f"published by itself, epoch {epoch}"]
    members = ", ".join(str(each) for each in group.members)
    lines = [f"published together with its group, epoch {epoch}: {members}"]
    if group.convergence_points:
        points = ", ".join(str(each) for each in group.convergence_points)
        lines.append(f"convergence points: {points}")
    if group.declared:
        lines.append(f"refresh groups: {', '.join(group.declared)}")
    part = next(part for part in group.components if name in part.members)
    if part.cyclic:
        lines.append(f"component: {', '.join(str(each) for each in part.members)}")
    return lines


def _cut(state: CatalogState, name: TableName) -> list[str]:
    """Where the table stands, and where the chain of tables that share a cut ends."""
    stream, lines = state.streams[name], []
    if stream.cut_id is not None:
        lines.append(f"stands at cut {stream.cut_id}")
    elif stream.cuts:
        lines.append(f"mixes the cuts {', '.join(map(str, stream.cuts))}")
    if name in state.opted_out:
        lines.append("opted out of standing at one cut: reads what is there when it is refreshed")
    if name in state.boundaries:
        lines.append("boundary: refreshed on request only, a source for the tables that read it")
    read = sorted(state.boundaries.intersection(state.reads.get(name, ())))
    if read:
        shown = ", ".join(str(each) for each in read)
        lines.append(f"reads as sources, because they are refreshed on request only: {shown}")
    return lines


def _indexes(runtime: Runtime, world: CutView, name: TableName) -> list[str]:
    """The sorted copies that are published with the table, and what a refresh would find of them."""
    with runtime.store.reading() as c:
        found = all_indexes(c).get(name, ())
    return [
        f"index {shown(each.name)} ({', '.join(map(shown, each.columns))}): {_copy(world, each)}"
        for each in found
    ]


def _copy(world: CutView, index: Index) -> str:
    if index.table not in world.pointers:  # another program may have dropped it
        return "without its table"
    decision = observe_index(world, index, there=index.copy in world.pointers).decide()
    if decision.strategy is None:
        return "up to date"
    return f"out of date, not read; next refresh: {decision.action.value}, {decision.reason}"


def spark_sql(kept: Maintenance) -> str:
    """The SQL that computes the change, if every source changed."""
    changed = tables(kept.full)
    if isinstance(kept, ByRows):
        node = kept.delta(changed)
    elif isinstance(kept, Combine):
        node = kept.change(changed)
    else:
        node = kept.touched(changed)
    if node is None:
        return "-- nothing can change"
    return to_sql(optimize(node, KEY_RULES), _shown, "spark")


def _shown(leaf: Scan | Parameter) -> str:
    if isinstance(leaf, Parameter):
        return leaf.name
    return str(leaf.table) if leaf.version is Version.NOW else f"{leaf.table}@{leaf.version.value}"


def foresee(
    runtime: Runtime,
    world: CutView,
    state: CatalogState,
    stream: StreamTable,
    definition: Definition,
) -> DecisionInputs:
    """What a refresh would find if it began now."""
    name, known = stream.name, state.inputs.get(stream.name, {})
    hidden, stored = hidden_of(stream.refresh_mode, definition), world.version(stream.name)
    member = MemberTable(
        stream,
        definition,
        redefined=redefined(world, stream, definition, known),
        tampered=tampered(stored, hidden, known.get(name)),
    )
    outside = gather(world, state, {name: definition})
    history = remember(runtime, None, stream)
    return decision_inputs(runtime, world, state, {name: member}, outside, history)


def _next(foreseen: Callable[[], DecisionInputs]) -> str:
    try:
        now = foreseen()
        decision = decide(now)
    except (BaseExpired, NewerEdition) as error:
        return f"next refresh: fails\n{_indented(str(error))}"
    predicted = f"in full {seconds(now.full_ms)}"
    if not now.obstacles and not now.is_full:
        predicted += f", from changes {seconds(now.differential_ms)}"
    return f"next refresh: {decision.action.value}, {decision.reason}\npredicted: {predicted}"


def explain_member(
    world: CutView, state: CatalogState, stream: StreamTable, component: Members
) -> list[str]:
    """The cycle, the rules of a round, and the Spark SQL of one."""
    definition = member_definition(world, stream, component)
    member = rule_of(stream.name, definition, component)
    around = f"cycle: {path(state.reads, component)}, refreshed to its least fixed point"
    if member is None:
        return [around, *(f"recomputed: {obstacle}" for obstacle in definition.obstacles)]
    ups = frozenset(member.upstreams)
    kept = "as a set, without what it has already" if member.is_set else "as a bag"
    inputs = ", ".join(str(each) for each in member.upstreams)
    grown = _optimized(member.grown(ups, only_gains=True))
    sections = [
        around,
        "incremental: yes, in rounds",
        _section("plan", definition.plan),
        f"kept: {kept}",
        _section(f"a round, when {inputs} gained rows", grown),
        _section(f"rows that may go, when {inputs} lost rows", _optimized(member.lost(ups))),
    ]
    if grown is not None:
        sections.append(f"Spark SQL of a round:\n{_indented(to_sql(grown, _shown, 'spark'))}")
    return [each for each in sections if each]


def _optimized(node: Node | None) -> Node | None:
    return None if node is None else optimize(node, KEY_RULES)


def _section(title: str, node: Node | None) -> str:
    return f"{title}:\n{_indented(show(node))}" if node is not None else ""


def _obstacles(definition: Definition, world: CutView) -> str:
    found = "\n".join(_obstacle(each, definition, world) for each in definition.obstacles)
    return f"incremental: no, it is recomputed in full:\n{_indented(found)}"


def _obstacle(obstacle: Obstacle, definition: Definition, world: CutView) -> str:
    """Reason code, place and meaning; the line itself; the operator; what to change."""
    text = world.views[obstacle.view] if obstacle.view is not None else definition.query
    line = text.split("\n")[obstacle.line - 1]
    mark = " " * (obstacle.column - 1) + "^"
    return (
        f"{obstacle}\n  | {line}\n  | {mark}\n"
        f"  operator: {obstacle.operator}\n  what to change: {obstacle.hint}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
