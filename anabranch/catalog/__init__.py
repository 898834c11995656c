"""Our rows, in the database that also holds Iceberg's pointers."""

from anabranch.catalog.store import Store

__all__ = ["Store"]
