"""A module that is loaded when something in it is used, and not by who only looks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anabranch.lazy import lazy


def test_a_module_is_loaded_at_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "used_late.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    late = lazy("used_late")
    assert not hasattr(late, "__wrapped__") and "used_late" in repr(late)
    assert "used_late" not in sys.modules
    assert late.VALUE == 7
    assert sys.modules.pop("used_late").VALUE == 7
    with pytest.raises(AttributeError, match="nothing"):
        _ = late.nothing
    sys.modules.pop("used_late")


def test_a_module_that_is_not_there() -> None:
    late = lazy("anabranch.no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = late.anything
