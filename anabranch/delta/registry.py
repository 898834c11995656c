"""Registries of rules by operator; the file of a rule registers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anabranch.errors import InternalError
from anabranch.plan.nodes import Node

AnyRule = TypeVar("AnyRule", bound=Callable[..., object])


class Registry(dict[type[Node], AnyRule]):
    """Rules by operator class; a class without a rule of its own has that of its base class."""

    def add(self, *kinds: type[Node]) -> Callable[[AnyRule], AnyRule]:
        """Registers the decorated function as the rule of these operators."""

        def register(rule: AnyRule) -> AnyRule:
            self.update(dict.fromkeys(kinds, rule))
            return rule

        return register

    def of(self, node: Node) -> AnyRule:
        rule = self.find(node)
        if rule is None:
            raise InternalError(f"{type(node).__name__} has no delta rule")
        return rule

    def find(self, node: Node) -> AnyRule | None:
        return next((self[kind] for kind in type(node).__mro__ if kind in self), None)
