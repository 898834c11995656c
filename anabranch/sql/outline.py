"""What a query gives and what is wrong with its names, found without Spark.

A name is called wrong only when everything it could mean is known.  What cannot be known offline
stays unknown: a column without a type, a table without a list of columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from anabranch.errors import did_you_mean
from anabranch.names import TableName, shown
from anabranch.plan.exprs import Tree
from anabranch.sql import functions
from anabranch.sql.inferred import inferred, mismatch
from anabranch.sql.outline_scope import Known, Outline, Scope, Source, merged, renamed
from anabranch.sql.source_text import SourceText
from anabranch.sql.time_windows import time_windows

__all__ = ["Finding", "Known", "Outline", "outline"]

MOST = 12  # columns that a hint lists
NEAR = 0.8  # how like a known function a name must be to be called a slip of the pen
KNOWN_FUNCTIONS = sorted(
    functions.PLAIN
    | functions.AGGREGATES
    | functions.GROUPING
    | functions.TIME_DEPENDENT
    | functions.NONDETERMINISTIC
    | functions.WINDOW_ONLY
    | functions.TIME_WINDOWS
    | functions.GENERATORS
)
_FUNCTIONS = frozenset(KNOWN_FUNCTIONS)
_WITHOUT_PARENTHESES = functions.TIME_DEPENDENT | functions.NONDETERMINISTIC
_SEES_ALIASES = ("group", "having", "order", "qualify", "sort", "cluster", "distribute", "windows")


TableOutline = Callable[[TableName], Outline]


@dataclass(frozen=True, order=True)
class Finding:
    """Something wrong at an offset of the query's text."""

    start: int
    message: str
    hint: str | None = None


Ctes = Mapping[str, Outline]


def outline(query: str, tables: TableOutline) -> tuple[Outline, tuple[Finding, ...]]:
    """The columns of a query, and all that is surely wrong with it."""
    source = SourceText(query)
    walk = _Walk(source, tables)
    try:
        columns = walk.query(source.tree, {}, None)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None, ()  # sqlglot stumbles over what Spark may well take
    return columns, tuple(sorted(set(walk.findings)))


class _Walk:
    def __init__(self, source: SourceText, tables: TableOutline) -> None:
        self.text = source
        self.tables = tables
        self.findings: list[Finding] = []

    def say(self, node: Tree, message: str, hint: str | None = None) -> None:
        self.findings.append(Finding(self.text.start(node), message, hint))

    # -- queries -------------------------------------------------------------------------------

    def query(self, node: Tree, ctes: Ctes, outer: Scope | None) -> Outline:
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            ctes = self.ctes(with_, ctes, outer)
        match node:
            case exp.Select():
                return self.select(node, ctes, outer)
            case exp.SetOperation():
                return self.set_operation(node, ctes, outer)
            case exp.Subquery():
                inside = self.query(node.this, ctes, outer)
                self.expressions(node, Scope((Source((), inside),), outer), ctes, skip=("this",))
                return renamed(None if node.args.get("pivots") else inside, node)
            case exp.Values():
                return self.values(node, ctes, outer)
        return None

    def ctes(self, with_: exp.With, ctes: Ctes, outer: Scope | None) -> Ctes:
        """A CTE hides a table of its name in what follows, not in its own body unless RECURSIVE."""
        known = dict(ctes)
        for cte in with_.expressions:
            name = cte.alias.lower()
            inside = {**known, name: None} if with_.recursive else known
            columns = renamed(self.query(cte.this, inside, outer), cte)
            known[name] = None if with_.recursive else columns
        return known

    def set_operation(self, node: exp.SetOperation, ctes: Ctes, outer: Scope | None) -> Outline:
        left = self.query(node.this, ctes, outer)
        right = self.query(node.expression, ctes, outer)
        if left is None or right is None or node.args.get("by_name"):
            return None
        if len(left) != len(right):
            word = type(node).__name__.upper()
            self.say(
                node.expression,
                f"{word} of {len(left)} and {len(right)} columns",
                "both sides need the same number",
            )
            return None
        pairs = zip(left, right, strict=True)
        return tuple(one if one.type == two.type else replace(one, type=None) for one, two in pairs)

    def values(self, node: exp.Values, ctes: Ctes, outer: Scope | None) -> Outline:
        self.expressions(node, Scope((), outer), ctes)
        first = node.expressions[0] if node.expressions else None
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        return renamed(tuple(Known(f"col{at + 1}") for at in range(width)), node)

    def select(self, node: exp.Select, ctes: Ctes, outer: Scope | None) -> Outline:
        scope = self.sources(node, ctes, outer)
        whole = Scope(scope.sources, scope.outer)
        found: list[Known] | None = []
        aliases: dict[str, str | None] = dict.fromkeys(time_windows(node))
        for item in node.expressions:
            seen = replace(whole, aliases=dict(aliases))
            self.expression(item, seen, ctes)
            columns = self.item(item, seen)
            if isinstance(item, exp.Alias) and columns:
                aliases[item.alias.lower()] = columns[0].type
            elif isinstance(item, exp.Aliases):
                aliases |= {name.name.lower(): None for name in item.expressions}
            found = None if found is None or columns is None else [*found, *columns]
        named = {column.name.lower(): column.type for column in found or () if column.name}
        last = replace(whole, aliases={**named, **aliases})
        for key, value in node.args.items():
            if key in ("expressions", "with_", "from_", "joins", "laterals", "hint"):
                continue
            self.each(value, last if key in _SEES_ALIASES else whole, ctes)
        return None if found is None else tuple(found)

    def item(self, item: Tree, scope: Scope) -> tuple[Known, ...] | None:
        """The columns that one item of a SELECT list gives."""
        if (starred := star_of(item)) is not None:
            return self.star(item, starred, scope)
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(item, exp.Aliases) or is_generator(inner):
            return None
        if isinstance(item, exp.Alias):
            name: str | None = item.alias
        else:
            name = item.name if isinstance(item, exp.Column) else None
            if isinstance(item, exp.Anonymous) and item.name.lower() in functions.TIME_WINDOWS:
                name = item.name.lower()
            if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Identifier):
                name = item.expression.name
        return (Known(name, self.type_of(inner, scope)),)

    def star(self, item: Tree, qualifier: list[str], scope: Scope) -> tuple[Known, ...] | None:
        chosen = [each for each in scope.sources if each.answers_to(qualifier) or not qualifier]
        if qualifier and not chosen:
            if not scope.find(qualifier) and not scope.is_open():
                name = ".".join(qualifier)
                self.say(
                    item, f"{name}.* names no table of FROM", did_you_mean(name, scope.qualifiers())
                )
            return None
        star = item.this if isinstance(item, exp.Column) else item
        dropped = {each.name.lower() for each in star.args.get("except_") or ()}
        if star.args.get("replace") or star.args.get("rename"):
            return None
        found: list[Known] = []
        for each in chosen:
            if each.columns is None:
                return None
            hidden = frozenset() if qualifier else each.hidden
            found += [
                column
                for column in each.columns
                if (column.name or "").lower() not in dropped | hidden
            ]
        return tuple(found)

    # -- FROM ----------------------------------------------------------------------------------

    def sources(self, node: exp.Select, ctes: Ctes, outer: Scope | None) -> Scope:
        scope = Scope((), outer)
        from_ = node.args.get("from_")
        if from_ is not None:
            scope = self.source(from_.this, scope, ctes)
        for join in node.args.get("joins") or ():
            scope = self.join(join, scope, ctes)
        for lateral in node.args.get("laterals") or ():
            scope = self.source(lateral, scope, ctes)
        return scope

    def source(self, node: Tree, scope: Scope, ctes: Ctes) -> Scope:
        """FROM with one more table in it."""
        alias: tuple[str, ...] = (node.alias.lower(),) if node.alias else ()
        columns: Outline = None
        match node:
            case exp.Table() if not isinstance(node.this, exp.Identifier):  # a table function
                self.expressions(node, scope, ctes)
                columns = renamed(None, node)
            case exp.Table():
                name = TableName.of(*(part.name for part in node.parts))
                own = tuple(part.name.lower() for part in node.parts)
                cte = own[0] if len(own) == 1 and own[0] in ctes else None
                columns = ctes[cte] if cte is not None else self.tables(name)
                alias = alias or (own if cte is not None else tuple(map(str.lower, name.parts)))
                columns = renamed(None if node.args.get("pivots") else columns, node)
            case exp.Lateral():
                self.expressions(node, scope, ctes, skip=("this",))
                inner = node.this
                if isinstance(inner, exp.Subquery):
                    columns = renamed(self.query(inner, ctes, scope), node)
                else:
                    self.expression(inner, scope, ctes)
                    columns = renamed(None, node)
            case exp.Subquery() if isinstance(node.this, exp.Table):  # (a JOIN b)
                inside = self.source(node.this, scope, ctes)
                return inside if not alias else Scope((*scope.sources, Source(alias, None)))
            case exp.Subquery() | exp.Values():
                columns = self.query(node, ctes, scope.outer)
        found = replace(scope, sources=(*scope.sources, Source(alias, columns)))
        for join in node.args.get("joins") or ():
            found = self.join(join, found, ctes)
        for lateral in node.args.get("laterals") or ():
            found = self.source(lateral, found, ctes)
        return found

    def join(self, join: exp.Join, scope: Scope, ctes: Ctes) -> Scope:
        both = self.source(join.this, scope, ctes)
        right = both.sources[len(scope.sources) :]
        using = [each.name.lower() for each in join.args.get("using") or ()]
        for each in join.args.get("using") or ():
            for side in (scope.sources, right):
                if not any(source.find(each.name.lower(), False) for source in side):
                    names = list(Scope(tuple(side)).reach(()))
                    self.say(each, f"column {shown(each.name)} of USING does not exist",
                             did_you_mean(each.name, names))  # fmt: skip
        if on := join.args.get("on"):
            self.expression(on, both, ctes)
        if (join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
            return scope
        if (join.args.get("method") or "").upper() == "NATURAL":
            return replace(both, sources=tuple(replace(s, columns=None) for s in both.sources))
        if not using:
            return both
        return replace(both, sources=merged(scope.sources, right, using))

    # -- expressions ---------------------------------------------------------------------------

    def each(self, value: object, scope: Scope, ctes: Ctes) -> None:
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Expr):
                self.expression(node, scope, ctes)

    def expressions(self, node: Tree, scope: Scope, ctes: Ctes, skip: Sequence[str] = ()) -> None:
        for key, value in node.args.items():
            if key not in (*skip, "alias", "with_", "pivots", "joins", "laterals"):
                self.each(value, scope, ctes)

    def expression(self, root: Tree, scope: Scope, ctes: Ctes) -> None:
        """Look at every column and call; a query inside sees this one from within."""
        todo: list[Tree] = [root]
        while todo:
            node = todo.pop()
            if isinstance(node, (exp.Hint, exp.Table)):
                continue
            if isinstance(node, exp.Query):
                self.query(node, ctes, scope)
                continue
            if isinstance(node, exp.Column):
                self.column(node, scope)
                continue
            if isinstance(node, exp.Anonymous):
                todo += self.call(node)
                continue
            if found := mismatch(node, partial(self.type_of, scope=scope)):
                self.say(node, *found)
            todo.extend(node.iter_expressions())

    def call(self, node: exp.Anonymous) -> list[Tree]:
        name, arguments = node.name.lower(), list(node.expressions)
        if name not in _FUNCTIONS and (hint := did_you_mean(name, _alike(name))):
            self.say(node, f"there is no function {name}", hint)
        if name in functions.WITH_UNIT and len(arguments) == 3:
            return arguments[1:]
        return arguments

    def column(self, node: exp.Column, scope: Scope) -> None:
        if star_of(node) is not None:
            return
        parts = [part.name.lower() for part in node.parts]
        text = ".".join(shown(part.name) for part in node.parts)
        if scope.find(parts):
            if scope.is_ambiguous(parts):
                self.say(node, f"column {text} is ambiguous", "put the table's name before it")
        elif not scope.is_open() and not (len(parts) == 1 and parts[0] in _WITHOUT_PARENTHESES):
            self.say(node, f"column {text} does not exist", cure(parts, scope))

    def type_of(self, node: Tree, scope: Scope) -> str | None:
        def column(parts: Sequence[str]) -> str | None:
            found = scope.find(parts)
            return found.type if found else None

        return inferred(node, column)


def star_of(node: Tree) -> list[str] | None:
    """The qualifier of `*` or `t.*`; None when the node is no star."""
    if isinstance(node, exp.Star):
        return []
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return [part.name.lower() for part in node.parts[:-1]]
    return None


def cure(parts: Sequence[str], scope: Scope) -> str | None:
    """The nearest column, or all there are."""
    known = list(dict.fromkeys(scope.reach(parts[:-1])))
    listed = ", ".join(known[:MOST]) + (", …" if len(known) > MOST else "")
    return did_you_mean(".".join(parts), known) or (f"columns: {listed}" if known else None)


def is_generator(node: Tree) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in functions.GENERATORS


def _alike(name: str) -> list[str]:
    """Known functions that differ by a letter or two; a user's own function is none of them."""
    return difflib.get_close_matches(name, KNOWN_FUNCTIONS, n=1, cutoff=NEAR)
