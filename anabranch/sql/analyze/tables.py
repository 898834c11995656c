"""Which tables a text reads, where it names them, and the same text over other tables.

The text is cut only where a table is named (or a column is qualified by a table's long name);
the rest stays letter for letter, so Spark reads what the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.errors import InternalError, Unsupported
from anabranch.names import TableName, quote
from anabranch.sql.analyze.ctes import cte_of
from anabranch.sql.text.parse import parse_expression, parse_query
from anabranch.sql.text.tokens import Place, Token, place, syntax_error, tokenize


@dataclass(frozen=True)
class Reference:
    """One mention of a table; `start` and `end` are offsets into the text."""

    name: TableName
    start: int
    end: int
    at: Place


@dataclass(frozen=True)
class _Source:
    """A table as one SELECT sees it; one seen from outside the text stands nowhere in it."""

    name: TableName
    alias: str | None
    start: int = -1
    end: int = -1

    @property
    def short(self) -> str:
        return self.alias or self.name.name

    def answers_to(self, qualifier: list[str]) -> bool:
        """Is this what `shop.sales` means?  An alias in the text hides the table's own name."""
        own = [part.lower() for part in self.name.parts]
        return (self.alias is None or self.start < 0) and own[-len(qualifier) :] == qualifier


@dataclass(eq=False)
class _Scope:
    """The tables and aliases of one SELECT, inside those of the SELECTs around it."""

    outer: _Scope | None
    sources: list[_Source] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)  # aliases that are not of `sources`
    addressed: set[_Source] = field(default_factory=set)  # by their long names

    def known_as(self, source: _Source) -> str:
        """`sales` for `shop.sales`; its long name where that is needed to tell two `sales` apart."""
        short = source.short.lower()
        alike = [other for other in self.sources if other.short.lower() == short]
        clash = len(alike) > 1 or short in (name.lower() for name in self.taken)
        if source.alias or not clash or self.addressed.isdisjoint(alike):
            return source.short
        return ".".join(source.name.parts)


@dataclass(frozen=True)
class _Walk:
    sources: list[tuple[_Source, _Scope]]
    columns: list[tuple[list[exp.Identifier], _Scope]]  # names of three and more parts


def tables_of(query: str, *, expression: bool = False) -> frozenset[TableName]:
    """The tables a query (or a condition with subqueries) reads."""
    return frozenset(reference.name for reference in references(query, expression=expression))


def references(query: str, *, expression: bool = False) -> tuple[Reference, ...]:
    """Every mention of a table, in the order of the text."""
    sources = (source for source, _ in _walk(query, expression).sources)
    return tuple(
        Reference(source.name, source.start, source.end, place(query, source.start))
        for source in sorted(sources, key=lambda source: source.start)
    )


def rebind(
    text: str,
    names: Mapping[TableName, str],
    *,
    expression: bool = False,
    outer: Mapping[TableName, str] | None = None,
) -> str:
    """The same SQL over other tables: `names` says which plain identifier takes whose place.

    A table without an alias keeps its own name as alias, and `shop.sales.x` becomes `sales.x`.
    `outer` are tables that an expression sees from outside, with the aliases they go by.
    """
    walk = _walk(text, expression, outer)
    if not walk.sources and not walk.columns:
        return text
    tokens = tokenize(text)
    qualifiers = [qualifier for column in walk.columns if (qualifier := _qualifier(text, *column))]
    edits = [
        (start, end, quote(scope.known_as(source)))
        for start, end, source, scope in qualifiers
        if source.name in names or source.start < 0
    ]
    for source, scope in walk.sources:
        if source.name in names:
            edits.append((source.start, source.end, quote(names[source.name])))
            if source.alias is None:
                at = _alias_place(tokens, source.end)
                edits.append((at, at, f" AS {quote(scope.known_as(source))}"))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def qualified(text: str, namespace: Sequence[str], catalog: str | None = None) -> str:
    """The same query where names without a schema lie in `default`, and no name tells a catalog.

    >>> qualified("SELECT t.x FROM t JOIN lake.a.b", ["shop"], "lake")
    'SELECT t.x FROM `shop`.`t` JOIN `a`.`b`'
    """
    for each in sorted(references(text), key=lambda each: each.start, reverse=True):
        written, parts = text[each.start : each.end], each.name.parts
        if written in (each.name.name, quote(each.name.name)):
            parts = (*namespace, each.name.name)
        elif len(parts) == 3 and catalog is not None and parts[0].lower() == catalog.lower():
            parts = parts[1:]
        else:
            continue
        text = text[: each.start] + ".".join(map(quote, parts)) + text[each.end :]
    return text


def _qualifier(
    text: str, parts: list[exp.Identifier], inner: _Scope
) -> tuple[int, int, _Source, _Scope] | None:
    """Where `shop.sales` stands in `shop.sales.x`, and the nearest table it can mean."""
    lowered = [part.this.lower() for part in parts]
    scope: _Scope | None = inner
    while scope:
        for length in range(min(len(parts), 3), 1, -1):
            for source in scope.sources:
                if source.answers_to(lowered[:length]):
                    scope.addressed.add(source)
                    end = _span(text, parts[length - 1])[1]
                    return _span(text, parts[0])[0], end, source, scope
        scope = scope.outer
    return None


def _walk(text: str, expression: bool, outer: Mapping[TableName, str] | None = None) -> _Walk:
    """All tables and long column names, with the SELECTs around them; `ctes` tells which names are
    those of tables."""
    scope = _Scope(None, [_Source(name, alias) for name, alias in (outer or {}).items()])
    walk = _Walk([], [])
    words = tokenize(text)
    if not outer and not any(word.says("FROM") or word.says("TABLE") for word in words):
        return walk  # nothing is read; long VALUES lists come this way
    tree: exp.Expr = parse_expression(text) if expression else parse_query(text)
    todo: list[tuple[exp.Expr, _Scope]] = [(tree, scope)]
    while todo:
        node, scope = todo.pop()
        if isinstance(node, exp.Hint):
            continue  # hints mention aliases, not tables
        if isinstance(node, exp.Select):
            scope = _Scope(scope)
        if isinstance(node, exp.Column):
            parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
            if len(node.parts) > 2:
                walk.columns.append((parts, scope))
            continue
        if isinstance(node, exp.Table):
            _see_table(text, node, scope, walk)
        elif isinstance(node.parent, (exp.From, exp.Join)) or isinstance(node, exp.Lateral):
            scope.taken.append(node.alias)
        _refuse_hidden_table(node)
        if isinstance(node, exp.CTE):
            todo.append((node.this, scope))
        else:
            todo.extend((child, scope) for child in node.iter_expressions())
    return walk


def _refuse_hidden_table(node: exp.Expr) -> None:
    """`FROM IDENTIFIER('t')` and `f(TABLE(t))` read tables that sqlglot takes for functions."""
    if not isinstance(node, exp.Anonymous):
        return
    function = node.name.upper()
    if function == "TABLE" or (function == "IDENTIFIER" and isinstance(node.parent, exp.Table)):
        raise Unsupported(f"{function}(…) in FROM is not supported", hint="write the table's name")


def _see_table(text: str, table: exp.Table, scope: _Scope, walk: _Walk) -> None:
    parts = [part for piece in table.parts for part in _identifiers(piece)]
    if not parts or cte_of(table) is not None:
        scope.taken.append(table.alias_or_name)  # a table function or a CTE
        return
    name = TableName.of(*(part.this for part in parts))
    if table.args.get("version") or table.args.get("when"):
        raise Unsupported(
            f"time travel on {name} is not supported in SQL",
            hint="read an older cut with `with ab.at(cut=…) as world: world.sql(…)`",
        )
    start, _ = _span(text, parts[0])
    _, end = _span(text, parts[-1])
    source = _Source(name, table.alias or None, start, end)
    scope.sources.append(source)
    walk.sources.append((source, scope))


def _identifiers(piece: exp.Expr) -> Iterator[exp.Identifier]:
    if isinstance(piece, exp.Identifier):
        yield piece
    elif isinstance(piece, exp.Dot):  # names of more than three parts
        yield from _identifiers(piece.this)
        yield from _identifiers(piece.expression)


def _span(text: str, part: exp.Identifier) -> tuple[int, int]:
    """Where an identifier stands; sqlglot's word is checked against the text."""
    start, end = part.meta.get("start"), part.meta.get("end")
    if isinstance(start, int) and isinstance(end, int):
        written = text[start : end + 1]
        if written == part.this or written == quote(part.this):
            return start, end + 1
        if written[:1] in ("'", '"'):  # sqlglot takes strings for names, Spark does not
            hint = "put names with other characters in `backticks`"
            raise syntax_error(text, start, f"expected a name, found {written}", hint)
    raise InternalError(f"cannot find {quote(part.this)} in the SQL text")


def _alias_place(tokens: list[Token], end: int) -> int:
    """Where `AS alias` goes: behind the table's name, or behind its TABLESAMPLE (…)."""
    index = next(i for i, token in enumerate(tokens) if token.start >= end)
    while tokens[index].says("TABLESAMPLE") or tokens[index].says("REPEATABLE"):
        index = _behind_brackets(tokens, index + 1)
        end = tokens[index - 1].end
    return end


def _behind_brackets(tokens: list[Token], index: int) -> int:
    depth = 0
    for i in range(index, len(tokens)):
        depth += tokens[i].says("(") - tokens[i].says(")")
        if depth <= 0 and tokens[i].says(")"):
            return i + 1
    return len(tokens) - 1
