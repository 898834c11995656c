"""Anabranch: stream tables on Apache Spark, kept fresh from changes and seen at one cut."""

from anabranch.api import Anabranch, connect, restore
from anabranch.errors import AnabranchError

__all__ = ["Anabranch", "AnabranchError", "connect", "restore"]
__version__ = "0.1.0"
