"""Name resolution in expressions: every column of the user becomes one column of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from anabranch.errors import UserError
from anabranch.plan.exprs import Tree, column_tree, meaning, operand
from anabranch.sql.analyze import functions
from anabranch.sql.analyze.scope import Field, Found, Scope
from anabranch.sql.lower.fields import field_name, struct, zipped
from anabranch.sql.lower.obstacles import is_aggregate
from anabranch.sql.lower.relation import Domain, Output, Selected, Stop
from anabranch.sql.text.source_text import SourceText

_RESOLVED = "resolved"  # marks a column of the plan
_WITHOUT_PARENTHESES = functions.TIME_DEPENDENT | functions.NONDETERMINISTIC


@dataclass
class Resolver:
    """Resolves names over one FROM clause; `aliases` are the items of the SELECT list so far, `outer`
    is what a correlated query uses of the outer query."""

    source: SourceText
    scope: Scope
    aliases: dict[str, list[Tree]] = field(default_factory=dict)
    outer: Domain | None = None

    def resolve(self, tree: Tree) -> Tree:
        return tree.transform(self._replace)

    def select(self, items: list[Tree]) -> Iterator[Selected]:
        """The SELECT list without stars; an item may use the aliases before it."""
        for item in items:
            if star := _star(item):
                for field_ in self._star_fields(*star):
                    yield Selected(Output(field_.name, field_.named), resolved(field_.column))
                continue
            tree = self.resolve(item.this if isinstance(item, exp.Alias) else item)
            output = Output(item.alias) if isinstance(item, exp.Alias) else _implied(item)
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
        parts = [part.name for part in node.parts]
        reference = self.scope.find(parts)
        return self._alias(node, parts) if reference is None else _column(node, reference)

    def _alias(self, node: exp.Column, parts: list[str]) -> Tree:
        """A lateral alias; columns of FROM come first."""
        trees = self.aliases.get(parts[0].lower(), [])
        if len({meaning(tree) for tree in trees}) > 1:
            raise UserError(f"alias {parts[0]} is ambiguous", hint="give the items different names")
        if trees:
            start = operand(trees[0].copy())
            names = node.parts[1:]
            return reduce(lambda a, name: exp.Dot(this=a, expression=name.copy()), names, start)
        if self.outer and (reference := self.outer.find(parts)):
            return _column(node, reference)
        name = parts[-1].lower()
        if len(parts) == 1 and name in _WITHOUT_PARENTHESES:
            time_dependent = name in functions.TIME_DEPENDENT
            code = "TIME_DEPENDENT_FUNCTION" if time_dependent else "NONDETERMINISTIC_FUNCTION"
            raise Stop(self.source.obstacle(code, node, what=parts[0]))
        if self.scope.has_unnamed:
            raise Stop(self.source.obstacle("NO_COLUMN_NAME", node, what=parts[-1]))
        raise self.scope.unknown(parts)

    def _call(self, node: exp.Anonymous) -> Tree:
        """Stars among the arguments become columns, except in COUNT(*); units are no columns."""
        name, args = node.name.lower(), list(node.expressions)
        if name in functions.TIME_WINDOWS:
            raise Stop(self.source.obstacle("TIME_WINDOW", node, what=name))
        if name in functions.WITH_UNIT and len(args) == 3 and _is_word(args[0]):
            node.set("expressions", [exp.Var(this=args[0].name), *args[1:]])
        elif len(args) == 1 and isinstance(args[0], exp.Distinct):
            args[0].set("expressions", list(self._all_expanded(args[0].expressions)))
        elif not (name == "count" and [_star(arg) for arg in args] == [((), ())]):
            node.set("expressions", list(self._all_expanded(args)))
        return node

    def _fields(self, args: Iterable[Tree]) -> Iterator[tuple[str | None, Tree]]:
        for arg in args:
            if star := _star(arg):
                for field_ in self._star_fields(*star):
                    yield field_.name, resolved(field_.column)
                continue
            is_plan_column = isinstance(arg, exp.Column) and is_resolved(arg)
            value = arg.this if isinstance(arg, exp.Alias) else arg
            yield None if is_plan_column else field_name(arg), self.resolve(value.copy())

    def _all_expanded(self, args: Iterable[Tree]) -> Iterator[Tree]:
        return (expanded for arg in args for expanded in self._expanded(arg))

    def _expanded(self, arg: Tree) -> Iterator[Tree]:
        star = _star(arg)
        if star is None:
            yield arg
        else:
            for field_ in self._star_fields(*star):
                yield resolved(field_.column)

    def _star_fields(self, qualifier: tuple[str, ...], without: tuple[str, ...]) -> list[Field]:
        dropped = {name.lower() for name in without}
        return [
            field_ for field_ in self.scope.star(qualifier) if field_.name.lower() not in dropped
        ]


def _column(node: exp.Column, reference: Found) -> Tree:
    """The column, or a field of it."""
    start: Tree = resolved(reference.column)
    names = node.parts[len(node.parts) - len(reference.fields) :]
    return reduce(lambda left, name: exp.Dot(this=left, expression=name.copy()), names, start)


def resolved(name: str) -> exp.Column:
    """A column of the plan, which needs no further resolution."""
    tree = column_tree(name)
    tree.meta[_RESOLVED] = True
    return tree


def is_resolved(node: exp.Column) -> bool:
    return _RESOLVED in node.meta


def _star(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """`t.* EXCEPT (a)` as (("t",), ("a",)); None if the tree is no star."""
    star = tree.this if isinstance(tree, exp.Column) else tree
    if not isinstance(star, exp.Star):
        return None
    qualifier = tuple(part.name for part in tree.parts[:-1]) if isinstance(tree, exp.Column) else ()
    return qualifier, tuple(identifier.name for identifier in star.args.get("except_") or ())


def _implied(item: Tree) -> Output:
    """The name of an item without AS."""
    if isinstance(item, exp.Column):
        return Output(item.name)
    if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Identifier):
        return Output(item.expression.name)
    return Output(item.sql("spark").lower(), named=False)


def _is_word(tree: Tree) -> bool:
    return isinstance(tree, exp.Column) and len(tree.parts) == 1


def resolve_having(resolver: Resolver, tree: Tree, keys: Mapping[str, object]) -> Tree:
    """HAVING: columns of FROM inside aggregate calls and where they are keys, otherwise outputs."""

    def replace(node: Tree) -> Tree:
        if is_aggregate(node):
            return Resolver(resolver.source, resolver.scope, outer=resolver.outer).resolve(node)
        if not isinstance(node, exp.Column) or is_resolved(node):
            return node
        parts = [part.name for part in node.parts]
        outputs = resolver.aliases.get(parts[0].lower(), []) if len(parts) == 1 else []
        if resolver.scope.find(parts) is not None:
            source_column = resolver.column(node)
            if not outputs or meaning(source_column) in keys:
                return source_column
        return operand(outputs[0].copy()) if outputs else resolver.column(node)

    return tree.transform(replace)
