"""How a member of a circle is kept, in words."""

from __future__ import annotations

from anabranch.catalog.streams import StreamTable
from anabranch.plan.nodes import Node, Parameter, Scan, Version
from anabranch.plan.optimize import KEY_RULES, optimize
from anabranch.plan.show import show
from anabranch.refresh.cycles import Circle, path
from anabranch.refresh.members import member_definition, rule_of
from anabranch.refresh.observe import CatalogState
from anabranch.sql.render import to_sql
from anabranch.world import World


def explain_member(
    world: World, state: CatalogState, stream: StreamTable, circle: Circle
) -> list[str]:
    """The circle, the rules of a round, and the Spark SQL of one."""
    definition = member_definition(world, stream, circle)
    member = rule_of(stream.name, definition, circle)
    around = f"circle: {path(state.reads, circle)}, refreshed to its least fixed point"
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


def _shown(leaf: Scan | Parameter) -> str:
    if isinstance(leaf, Parameter):
        return leaf.name
    return str(leaf.table) if leaf.version is Version.NOW else f"{leaf.table}@{leaf.version.value}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
