"""Fail points: the places at which tests stop a process, or let it fail.

`hit` does nothing unless code in this very process has set `hook`, which only tests do: no setting and
no environment variable leads here.
"""

from __future__ import annotations

from collections.abc import Callable

STAGED = "staged"  # data files and manifests are written
METADATA_WRITTEN = "metadata_written"  # and all new metadata files
IN_TRANSACTION = "in_transaction"  # all pointers are moved, nothing is committed
PUBLISHED = "published"  # committed
ROUND = "round_"  # and a number: so many rounds of a fixed point are done
BEGUN = "begun"  # a deployment is written down, nothing of it is built
STEPS = (STAGED, METADATA_WRITTEN, IN_TRANSACTION, PUBLISHED)  # of a publish, in their order

hook: Callable[[str], None] | None = None


def hit(point: str) -> None:
    if hook is not None:
        hook(point)
