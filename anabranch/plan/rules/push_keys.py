"""(R ⋈ S) ⋉ K = (R ⋉ K) ⋈ (S ⋉ K)     if R has the keys, and S columns equated with them

A filter on keys moves towards the scans, where it saves reading.
"""

from __future__ import annotations

from anabranch.cache import cached
from anabranch.plan.nodes import KeyFilter, Node, On


def push_keys(node: Node) -> Node:
    """
    >>> from anabranch.plan.read import rewritten
    >>> rewritten(push_keys, '''
    ... KeyFilter where k is key
    ...   Join on k = l
    ...     Scan a (k, v)
    ...     Project m as l
    ...       Scan b (m)
    ...   Parameter keys (key)
    ... ''')
    Join on k = l
      KeyFilter where k is key
        Scan default.a (k, v)
        Parameter keys (key)
      Project m as l
        KeyFilter where m is key
          Scan default.b (m)
          Parameter keys (key)
    """
    return filter_keys(node.input, node.keys, node.on) if isinstance(node, KeyFilter) else node


@cached(5_000)
def filter_keys(node: Node, keys: Node, on: On) -> Node:
    """The rows of `node` whose values are among the keys, filtered as far down as possible."""
    routes = node.routes(on)
    if routes is None:
        return KeyFilter(node, keys, on)
    inputs = (
        filter_keys(child, keys, route) if route else child
        for child, route in zip(node.inputs, routes, strict=True)
    )
    return node.with_inputs(tuple(inputs))
