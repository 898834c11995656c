"""Expressions: every column of the user becomes the column of the plan that it is bound to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

from sqlglot import exp

from anabranch.errors import UnknownName, UserError
from anabranch.names import shown
from anabranch.plan.exprs import Expr, Tree, column_tree, meaning, operand
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.bindings import answer_of, fields_of, meaning_of
from anabranch.sql.analyze.fields import field_name, struct, zipped
from anabranch.sql.analyze.names import implied_name
from anabranch.sql.analyze.obstacles import is_aggregate
from anabranch.sql.analyze.scope import Alias, Answer, Field, unknown
from anabranch.sql.obstacles import Stop
from anabranch.sql.text.source_text import SourceText

_RESOLVED = "resolved"  # marks a column of the plan
_WITHOUT_PARENTHESES = functions.TIME_DEPENDENT | functions.NONDETERMINISTIC


@dataclass(frozen=True)
class Output:
    """The name of an output column; not `named` if it was derived from the expression."""

    name: str
    named: bool = True


@dataclass(frozen=True)
class FromColumns:
    """The columns of a FROM clause, in their order, and the columns of the plan that they are."""

    fields: tuple[Field, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # `Field.column` → column of the plan

    @classmethod
    def of(cls, fields: Sequence[Field], names: Iterable[str]) -> FromColumns:
        pairs = zip(fields, names, strict=True)
        return cls(tuple(fields), {field_.column: name for field_, name in pairs})

    def find(self, answer: Answer, name: exp.Column) -> str | None:
        """The column of the plan that a name means."""
        columns = [self.names[column] for column in answer.columns if column in self.names]
        if len(columns) > 1:
            text = ".".join(shown(part.name) for part in name.parts)
            raise UserError(f"column {text} is ambiguous", hint="put the table's name before it")
        return columns[0] if columns else None

    def renamed(self, names: Mapping[str, str]) -> FromColumns:
        """Only the columns that have a new name, under it."""
        kept = [field_ for field_ in self.fields if self.names[field_.column] in names]
        return FromColumns.of(kept, [names[self.names[field_.column]] for field_ in kept])

    @property
    def has_unnamed(self) -> bool:
        return any(not field_.named for field_ in self.fields)

    def __add__(self, other: FromColumns) -> FromColumns:
        return FromColumns(self.fields + other.fields, {**self.names, **other.names})


@dataclass(frozen=True)
class Selected:
    """An item of a SELECT list, its expression over columns of the plan."""

    output: Output
    tree: Tree


class Outer(Protocol):
    """What a correlated query uses of the queries around it."""

    def find(self, answer: Answer, name: exp.Column) -> str | None: ...


@dataclass
class Resolver:
    """Expressions over one FROM clause; `aliases` are the items of the SELECT list so far, `outer` is
    what a correlated query uses of the outer query."""

    source: SourceText
    scope: FromColumns
    aliases: dict[str, list[Tree]] = field(default_factory=dict)
    outer: Outer | None = None

    def resolve(self, tree: Tree) -> Tree:
        return tree.transform(self._replace)

    def select(self, items: list[Tree]) -> Iterator[Selected]:
        """The SELECT list without stars; an item may use the aliases before it."""
        for item in items:
            if is_star(item):
                for field_ in self._star_fields(item):
                    yield Selected(Output(field_.name, field_.named), self._resolved(field_))
                continue
            tree = self.resolve(item.this if isinstance(item, exp.Alias) else item)
            output = (
                Output(item.alias) if isinstance(item, exp.Alias) else Output(*implied_name(item))
            )
            if isinstance(item, exp.Alias):
                self.aliases.setdefault(item.alias.lower(), []).append(tree)
            yield Selected(output, tree)

    def _replace(self, node: Tree) -> Tree:
        match node:
            case exp.Column():
                return node if is_resolved(node) else self.column(node)
            case exp.Anonymous(this=str(name)) if name.lower() in ("struct", "arrays_zip"):
                make = struct if name.lower() == "struct" else zipped
                return make(list(self._fields(node.expressions)))
            case exp.Tuple() if not isinstance(node.parent, (exp.In, exp.Any, exp.All)):
                return struct(list(self._fields(node.expressions)))
            case exp.Anonymous():
                return self._call(node)
            case exp.Placeholder() | exp.Parameter() | exp.SessionParameter():
                raise UserError("a query of a stream table takes no parameters")
        return node

    def column(self, node: exp.Column) -> Tree:
        meaning_ = meaning_of(node)
        if isinstance(meaning_, Alias) and meaning_.name in self.aliases:
            return _item(node, self.aliases[meaning_.name])
        if isinstance(meaning_, Answer):
            name = self.of_from(node)
            if name is None and self.outer is not None:
                name = self.outer.find(meaning_, node)
            if name is not None:
                return _column(node, name, meaning_)
        raise self._unknown(node)

    def of_from(self, node: exp.Column) -> str | None:
        """The column of FROM that a name means."""
        answer = answer_of(node)
        return None if answer is None else self.scope.find(answer, node)

    def _unknown(self, node: exp.Column) -> Exception:
        parts = [part.name for part in node.parts]
        name = parts[-1].lower()
        if len(parts) == 1 and name in _WITHOUT_PARENTHESES:
            time_dependent = name in functions.TIME_DEPENDENT
            code = "TIME_DEPENDENT_FUNCTION" if time_dependent else "NONDETERMINISTIC_FUNCTION"
            return Stop(self.source.obstacle(code, node, what=parts[0]))
        if self.scope.has_unnamed:
            return Stop(self.source.obstacle("NO_COLUMN_NAME", node, what=parts[-1]))
        return unknown(parts, self.scope.fields)

    def _call(self, node: exp.Anonymous) -> Tree:
        """Stars among the arguments become columns, except in COUNT(*); units are no columns."""
        name, args = node.name.lower(), list(node.expressions)
        if name in functions.TIME_WINDOWS:
            raise Stop(self.source.obstacle("TIME_WINDOW", node, what=name))
        if name in functions.WITH_UNIT and len(args) == 3 and _is_word(args[0]):
            node.set("expressions", [exp.Var(this=args[0].name), *args[1:]])
        elif len(args) == 1 and isinstance(args[0], exp.Distinct):
            args[0].set("expressions", list(self._all_expanded(args[0].expressions)))
        elif not (name == "count" and [type(arg) for arg in args] == [exp.Star]):
            node.set("expressions", list(self._all_expanded(args)))
        return node

    def _fields(self, args: Iterable[Tree]) -> Iterator[tuple[str | None, Tree]]:
        for arg in args:
            if is_star(arg):
                for field_ in self._star_fields(arg):
                    yield field_.name, self._resolved(field_)
                continue
            is_plan_column = isinstance(arg, exp.Column) and is_resolved(arg)
            value = arg.this if isinstance(arg, exp.Alias) else arg
            yield None if is_plan_column else field_name(arg), self.resolve(value.copy())

    def _all_expanded(self, args: Iterable[Tree]) -> Iterator[Tree]:
        return (expanded for arg in args for expanded in self._expanded(arg))

    def _expanded(self, arg: Tree) -> Iterator[Tree]:
        if is_star(arg):
            yield from map(self._resolved, self._star_fields(arg))
        else:
            yield arg

    def _star_fields(self, star: Tree) -> tuple[Field, ...]:
        fields = fields_of(star)
        if fields is None:
            parts = star.parts if isinstance(star, exp.Column) else ()
            name = ".".join(part.name for part in parts[:-1])
            known = {".".join(field_.qualifier) for field_ in self.scope.fields}
            raise UnknownName(f"{name}.* names no table of FROM", name=name, known=known)
        return fields

    def _resolved(self, field_: Field) -> exp.Column:
        return resolved(self.scope.names[field_.column])


def _column(node: exp.Column, name: str, answer: Answer) -> Tree:
    """The column, or a field of it."""
    return _field(resolved(name), node.parts[len(node.parts) - len(answer.rest) :])


def _item(node: exp.Column, trees: Sequence[Tree]) -> Tree:
    """An item of the SELECT list, or a field of it."""
    if len({meaning(tree) for tree in trees}) > 1:
        alias = node.parts[0].name
        raise UserError(f"alias {alias} is ambiguous", hint="give the items different names")
    return _field(operand(trees[0].copy()), node.parts[1:])


def _field(start: Tree, names: Sequence[Tree]) -> Tree:
    return reduce(lambda left, name: exp.Dot(this=left, expression=name.copy()), names, start)


def resolved(name: str) -> exp.Column:
    """A column of the plan, which needs no further resolution."""
    tree = column_tree(name)
    tree.meta[_RESOLVED] = True
    return tree


def resolved_expression(expr: Expr) -> Tree:
    """An expression over columns of the plan."""
    tree = expr.tree.copy()
    for node in tree.find_all(exp.Column):
        node.meta[_RESOLVED] = True
    return tree


def is_resolved(node: exp.Column) -> bool:
    return _RESOLVED in node.meta


def is_star(tree: Tree) -> bool:
    return isinstance(tree.this if isinstance(tree, exp.Column) else tree, exp.Star)


def _is_word(tree: Tree) -> bool:
    return isinstance(tree, exp.Column) and len(tree.parts) == 1


def resolve_having(resolver: Resolver, tree: Tree) -> Tree:
    """HAVING, which sees the first item of a name; calls of aggregates are left to be lifted."""
    firsts = {name: trees[:1] for name, trees in resolver.aliases.items()}
    over_groups = replace(resolver, aliases=firsts)
    over_rows = replace(resolver, aliases={})

    def resolve(node: Tree) -> Tree:
        if is_aggregate(node):
            return over_rows.resolve(node)
        if isinstance(node, exp.Column) and not is_resolved(node):
            return over_groups.column(node)
        return node

    return tree.transform(resolve)
