"""A plan as DuckDB's SQL, written as plainly as it goes: one SELECT for every node.

It is a second opinion on what a plan means, and several times cheaper than the rendering for Spark,
which makes good SQL of it.  What a plan computes more than once is written once, since most of DuckDB's
time goes into reading such texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anabranch.plan.exprs import Expr
from anabranch.plan.nodes import (
    Aggregate,
    AntiJoin,
    Filter,
    Generate,
    Item,
    Join,
    KeyFilter,
    MarkJoin,
    Node,
    OneRow,
    Outer,
    Parameter,
    Project,
    Scan,
    SemiJoin,
    UnionAll,
    Window,
    same_columns,
)
from tests.oracle.duck import duck

NameOf = Callable[[Scan | Parameter], str]
_NOWHERE = "SELECT 1 FROM x"


def plain_text(node: Node, name_of: NameOf) -> str:
    return _Writer(name_of, _repeated(node)).text(node)


def _repeated(root: Node) -> frozenset[Node]:
    """Nodes that occur more than once, but not only within one that does."""
    seen, found = set(), set()
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, (Scan, Parameter, OneRow)):
            continue
        if node in seen:
            found.add(node)
            continue
        seen.add(node)
        open_nodes += node.inputs
    return frozenset(found)


class _Writer:
    def __init__(self, name_of: NameOf, repeated: frozenset[Node]) -> None:
        self.name_of, self.repeated = name_of, repeated
        self.written: dict[Node, str] = {}
        self.aliases = 0

    def text(self, root: Node) -> str:
        query = self.query(root)
        if not self.written:
            return query
        shared = ", ".join(f"c{at} AS ({text})" for at, text in enumerate(self.written.values()))
        return f"WITH {shared} {query}"

    def shared(self, node: Node) -> str:
        """The name of what a repeated node computes; those below it come before it."""
        if node not in self.written:
            self.written[node] = self.query(node)
        return f"c{[*self.written].index(node)}"

    def source(self, node: Node) -> str:
        self.aliases += 1
        if isinstance(node, (Scan, Parameter)):
            return f"{self.name_of(node)} t{self.aliases}"
        if node in self.repeated:
            return f"{self.shared(node)} t{self.aliases}"
        return f"({self.query(node)}) t{self.aliases}"

    def query(self, node: Node) -> str:
        match node:
            case Project():
                return f"SELECT {_items(node.items)} FROM {self.source(node.input)}"
            case Filter():
                where = _text(node.condition)
                return f"SELECT {_names(node)} FROM {self.source(node.input)} WHERE {where}"
            case Join():
                sources = " CROSS JOIN ".join(map(self.source, node.parts))
                where = f" WHERE {_text(node.condition)}" if node.condition else ""
                return f"SELECT {_names(node)} FROM {sources}{where}"
            case Aggregate():
                return self.grouped(node)
            case UnionAll():
                return " UNION ALL ".join(f"({self.query(part)})" for part in node.parts)
            case Outer():
                kind = "FULL JOIN" if node.full else "LEFT JOIN"
                return f"SELECT {_names(node)} FROM {self.pair(node, kind)}"
            case MarkJoin():
                where = f" WHERE {_text(node.condition)}" if node.condition else ""
                some = f"EXISTS (SELECT 1 FROM {self.source(node.right)}{where})"
                left = self.source(node.left)
                return f'SELECT {_names(node.left)}, {some} AS "{node.mark}" FROM {left}'
            case SemiJoin() | AntiJoin():
                kind = "SEMI JOIN" if isinstance(node, SemiJoin) else "ANTI JOIN"
                return f"SELECT {_names(node)} FROM {self.pair(node, kind)}"
            case KeyFilter():
                return self.among(node)
            case Window():
                items = _items((*same_columns(node.input), *node.calls))
                return f"SELECT {items} FROM {self.source(node.input)}"
            case Generate():
                names = ", ".join(f"`{name}`" for name in node.names)
                words = "LATERAL VIEW OUTER" if node.outer else "LATERAL VIEW"
                view = duck(f"{_NOWHERE} {words} {node.generator.text} g AS {names}")
                view = view.removeprefix(_NOWHERE)
                return f"SELECT {_names(node)} FROM {self.source(node.input)}{view}"
            case OneRow():
                return "SELECT 1 AS _ab_one"
            case Scan() | Parameter():
                return f"SELECT {_names(node)} FROM {self.source(node)}"
        raise NotImplementedError(type(node).__name__)

    def pair(self, node: Outer | SemiJoin | AntiJoin, kind: str) -> str:
        on = _text(node.condition) if node.condition else "TRUE"
        return f"{self.source(node.left)} {kind} {self.source(node.right)} ON {on}"

    def grouped(self, node: Aggregate) -> str:
        calls = tuple(Item(call.name, call.expr) for call in node.calls)
        distinct = "" if calls else "DISTINCT "
        places = ", ".join(str(at + 1) for at in range(len(node.keys)))
        group = f" GROUP BY {places}" if calls and places else ""
        items = _items((*node.keys, *calls))
        return f"SELECT {distinct}{items} FROM {self.source(node.input)}{group}"

    def among(self, node: KeyFilter) -> str:
        keys = ", ".join(f'"{key}" AS _on{at}' for at, (_, key) in enumerate(node.on))
        on = " AND ".join(
            f"({_text(expr)}) IS NOT DISTINCT FROM _on{at}" for at, (expr, _) in enumerate(node.on)
        )
        found = f"(SELECT {keys} FROM {self.source(node.keys)}) t{self.aliases}k"
        return f"SELECT {_names(node)} FROM {self.source(node.input)} SEMI JOIN {found} ON {on}"


def _text(expr: Expr) -> str:
    return duck(expr.text)


def _items(items: Iterable[Item]) -> str:
    return ", ".join(f'{_text(item.expr)} AS "{item.name}"' for item in items)


def _names(node: Node) -> str:
    return ", ".join(f'"{name}"' for name in node.columns)
