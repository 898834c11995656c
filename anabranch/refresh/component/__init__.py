"""Circles of stream tables, refreshed to their least fixed point."""

from anabranch.refresh.component.run import refresh_component

__all__ = ["refresh_component"]
