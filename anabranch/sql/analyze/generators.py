"""Generators: the columns that explode, posexplode, inline, stack and json_tuple make."""

from __future__ import annotations

from sqlglot import exp

from anabranch.plan.exprs import Tree
from anabranch.sql.analyze import functions
from anabranch.types import Type


def is_generator(node: Tree) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in functions.GENERATORS


def generator_in(item: Tree) -> Tree | None:
    """The generator that an item of a SELECT list is."""
    call = item.this if isinstance(item, (exp.Alias, exp.Aliases)) else item
    return call if is_generator(call) else None


def columns_of(call: Tree, first: Type | None) -> tuple[str, ...] | None:
    """The names that Spark gives the columns; `first` is the type of the first argument.

    None: nobody knows without that type, or it is another function.
    """
    name, arguments = call.name.lower().removesuffix("_outer"), call.expressions
    match name:
        case "explode" | "posexplode":
            if first is None:
                return None
            columns = ("key", "value") if first.name == "map" else ("col",)
            return ("pos", *columns) if name == "posexplode" else columns
        case "inline":
            if first is None or first.name != "array":
                return None
            return tuple(field.name for field in first.fields[0].type.fields)
        case "stack" if arguments and arguments[0].name.isdigit() and int(arguments[0].name):
            rows = int(arguments[0].name)
            return tuple(f"col{at}" for at in range(-(-(len(arguments) - 1) // rows)))
        case "json_tuple":
            return tuple(f"c{at}" for at in range(len(arguments) - 1))
    return None
