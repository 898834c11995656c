"""The verbs: plain functions over a session, which Python, SQL and the command line all call.

A file of verbs imports whatever they need, and is loaded with the first of them that is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.lazy import lazy

if TYPE_CHECKING:
    from anabranch.verbs import (
        catalogs as catalogs,
    )
    from anabranch.verbs import (
        deployments as deployments,
    )
    from anabranch.verbs import (
        listings as listings,
    )
    from anabranch.verbs import (
        projects as projects,
    )
    from anabranch.verbs import (
        reading as reading,
    )
    from anabranch.verbs import (
        source_tables as source_tables,
    )
    from anabranch.verbs import (
        stream_tables as stream_tables,
    )
    from anabranch.verbs import (
        upkeep as upkeep,
    )
else:
    catalogs = lazy("anabranch.verbs.catalogs")
    deployments = lazy("anabranch.verbs.deployments")
    listings = lazy("anabranch.verbs.listings")
    projects = lazy("anabranch.verbs.projects")
    reading = lazy("anabranch.verbs.reading")
    source_tables = lazy("anabranch.verbs.source_tables")
    stream_tables = lazy("anabranch.verbs.stream_tables")
    upkeep = lazy("anabranch.verbs.upkeep")

__all__ = [
    "catalogs",
    "deployments",
    "listings",
    "projects",
    "reading",
    "source_tables",
    "stream_tables",
    "upkeep",
]
