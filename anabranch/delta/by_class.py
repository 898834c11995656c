"""One rule for each operator, which the file of the rule registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch.errors import InternalError
from anabranch.plan.nodes import Node

R = TypeVar("R", bound=Callable[..., object])


class ByClass(dict[type[Node], R]):
    """Rules by the class of the operator that they are for; a class has that of its base."""

    def add(self, *kinds: type[Node]) -> Callable[[R], R]:
        """The decorated function is the rule of these operators."""

        def register(rule: R) -> R:
            self.update(dict.fromkeys(kinds, rule))
            return rule

        return register

    def of(self, node: Node) -> R:
        found = self.find(node)
        if found is None:
            raise InternalError(f"{type(node).__name__} has no delta rule")
        return found

    def find(self, node: Node) -> R | None:
        return next((self[kind] for kind in type(node).__mro__ if kind in self), None)
