"""Plans that mean the same and are cheaper to differentiate and to run.

`simplify` is for the plan of a query; plan/push_keys.py is for plans that ask for some keys only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from anabranch.plan.exprs import Expr, conjunction, conjuncts
from anabranch.plan.nodes import Aggregate, Filter, Item, Join, Node, Project
from anabranch.plan.prune import prune
from anabranch.plan.walk import transform

Rule = Callable[[Node], Node]


def merge_projects(node: Node) -> Node:
    """π_f(π_g(R)) = π_f∘g(R), unless that would compute something twice."""
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    inner = {item.name: item for item in node.input.items}
    uses = Counter(name for item in node.items for name in item.expr.columns)
    if any(uses[name] > 1 and inner[name].expr.column is None for name in uses):
        return node
    exprs = {name: item.expr for name, item in inner.items()}
    items = tuple(replace(item, expr=item.expr.substitute(exprs)) for item in node.items)
    return Project(node.input.input, items)


def merge_filters(node: Node) -> Node:
    """σ_a(σ_b(R)) = σ_{b ∧ a}(R)"""
    if not (isinstance(node, Filter) and isinstance(node.input, Filter)):
        return node
    return _filter(node.input.input, (*conjuncts(node.input.condition), *conjuncts(node.condition)))


def filter_below_project(node: Node) -> Node:
    """σ_c(π(R)) = π(σ_c'(R)) where c looks only at columns that π passes on"""
    if not (isinstance(node, Filter) and isinstance(node.input, Project)):
        return node
    exprs = {item.name: item.expr for item in node.input.items}
    if any(exprs[name].column is None for name in node.condition.columns):
        return node
    below = _filter_rules(Filter(node.input.input, node.condition.substitute(exprs)))
    return Project(below, node.input.items)


def filter_below_aggregate(node: Node) -> Node:
    """σ_c(γ_k(R)) = γ_k(σ_c(R)) where c looks only at keys, and at least at one"""
    if not (isinstance(node, Filter) and isinstance(node.input, Aggregate)):
        return node
    keys = {key.name: key.expr for key in node.input.keys}
    parts = conjuncts(node.condition)
    below = [part for part in parts if part.columns and part.columns <= keys.keys()]
    above = [part for part in parts if part not in below]
    if not below:
        return node
    grown = _filter(node.input.input, [part.substitute(keys) for part in below])
    return _filter(replace(node.input, input=_filter_rules(grown)), above)


def filter_into_join(node: Node) -> Node:
    """σ_c(R ⋈ S) = R ⋈_c S"""
    if not (isinstance(node, Filter) and isinstance(node.input, Join)):
        return node
    parts = (*conjuncts(node.input.condition), *conjuncts(node.condition))
    return replace(node.input, condition=conjunction(parts))


def flatten_joins(node: Node) -> Node:
    """(R ⋈ S) ⋈ T = R ⋈ S ⋈ T"""
    if not isinstance(node, Join) or not any(isinstance(part, Join) for part in node.parts):
        return node
    parts: list[Node] = []
    conditions: list[Expr] = []
    for part in node.parts:
        parts += part.parts if isinstance(part, Join) else (part,)
        conditions += conjuncts(part.condition) if isinstance(part, Join) else ()
    return Join(tuple(parts), conjunction((*conditions, *conjuncts(node.condition))))


RULES: tuple[Rule, ...] = (
    merge_projects,
    merge_filters,
    filter_below_project,
    filter_below_aggregate,
    filter_into_join,
    flatten_joins,
)


def simplify(plan: Node) -> Node:
    """All rules until nothing changes, then only the columns that are used."""
    while True:
        before = plan
        for rule in RULES:
            plan = transform(plan, rule)
        if plan == before:
            return transform(prune(plan), merge_projects)


def filter_below_join(node: Join) -> Join:
    """R ⋈_c S = σ_c(R) ⋈ S where c looks only at R: for those who ask R for its keys"""
    parts, waiting = list(node.parts), list(conjuncts(node.condition))
    for at, part in enumerate(parts):
        own = [expr for expr in waiting if expr.columns and expr.columns <= {*part.columns}]
        if own:
            waiting = [expr for expr in waiting if expr not in own]
            parts[at] = _filter_rules(_filter(part, own))
    return Join(tuple(parts), conjunction(waiting), node.broadcast)


def _filter(node: Node, parts: list[Expr] | tuple[Expr, ...]) -> Node:
    condition = conjunction(parts)
    return node if condition is None else Filter(node, condition)


def _filter_rules(node: Node) -> Node:
    """A filter that has just moved goes on as far as it can."""
    for rule in (merge_filters, filter_below_project, filter_below_aggregate, filter_into_join):
        node = rule(node)
    return node


def passes_on(items: tuple[Item, ...]) -> dict[str, str]:
    """Item name → the input's column, for items that are nothing but a column."""
    return {item.name: item.expr.column for item in items if item.expr.column is not None}
