"""The checker finds the anomalies it names, and none in a serial history."""

from __future__ import annotations

from tests.isolation.checker import Txn, anomalies

NOTHING = Txn("end", "ok")


def kinds(*history: Txn, final: Txn = NOTHING) -> set[str]:
    return {each.kind for each in anomalies(history, final)}


def listed(**keys: str) -> dict[str, frozenset[str]]:
    return {key: frozenset(values.split()) for key, values in keys.items()}


def test_a_serial_history() -> None:
    one = Txn("1", "ok", appended={"x": ["a"]}, read={"r": "0"}, wrote={"r": "1"})
    two = Txn("2", "ok", listed=listed(x="a"), read={"r": "1"}, wrote={"r": "2"})
    final = Txn("end", "ok", listed=listed(x="a"), read={"r": "2"})
    assert kinds(one, two, final=final) == set()


def test_lost_and_aborted_writes() -> None:
    lost = Txn("1", "ok", appended={"x": ["a"]})
    assert kinds(lost, final=Txn("end", "ok", listed=listed(x=""))) == {"lost"}
    ghost = Txn("1", "refused", appended={"x": ["a"]})
    assert "aborted write" in kinds(ghost, final=Txn("end", "ok", listed=listed(x="a")))
    half = Txn("1", "unknown", appended={"x": ["a", "b"]})
    assert "half" in kinds(half, final=Txn("end", "ok", listed=listed(x="a")))


def test_an_aborted_append_that_is_gone_by_the_end() -> None:
    ghost = Txn("1", "refused", appended={"x": ["a"]})
    reader = Txn("2", "ok", listed=listed(x="a"))
    found = anomalies([ghost, reader], Txn("end", "ok", listed=listed(x="")))
    assert "aborted write" in {each.kind for each in found}
    alone = Txn("1", "refused", appended={"x": ["a"]}, listed=listed(x="a"))  # its own is no sin
    assert kinds(alone, final=Txn("end", "ok", listed=listed(x=""))) == set()


def test_an_aborted_write_of_a_register() -> None:
    ghost = Txn("1", "refused", read={"r": "0"}, wrote={"r": "1"})
    assert kinds(ghost, final=Txn("end", "ok", read={"r": "1"})) == {"aborted write"}
    reader = Txn("2", "ok", read={"r": "1"})
    assert kinds(ghost, reader, final=Txn("end", "ok", read={"r": "0"})) == {"aborted write"}
    assert kinds(ghost, final=Txn("end", "ok", read={"r": "0"})) == set()


def test_a_lost_write_of_a_register() -> None:
    one = Txn("1", "ok", read={"r": "0"}, wrote={"r": "1"})
    assert kinds(one, final=Txn("end", "ok", read={"r": "0"})) == {"lost"}
    two = Txn("2", "ok", read={"r": "1"}, wrote={"r": "2"})
    assert kinds(one, two, final=Txn("end", "ok", read={"r": "2"})) == set()
    assert kinds(one, two, final=Txn("end", "ok", read={"r": "1"})) >= {"lost"}
    assert kinds(one, two, final=Txn("end", "ok", read={"r": "0"})) >= {"lost"}


def test_a_write_of_which_nobody_heard() -> None:
    """It may be there or not; what was written upon it needs it."""
    open_ = Txn("1", "unknown", read={"r": "0"}, wrote={"r": "1"})
    upon = Txn("2", "ok", read={"r": "1"}, wrote={"r": "2"})
    for version in ("0", "1"):
        assert kinds(open_, final=Txn("end", "ok", read={"r": version})) == set()
    assert kinds(open_, upon, final=Txn("end", "ok", read={"r": "2"})) == set()
    beside = Txn("3", "ok", read={"r": "0"}, wrote={"r": "3"})
    assert "lost" in kinds(open_, upon, beside, final=Txn("end", "ok", read={"r": "3"}))


def test_what_nobody_wrote() -> None:
    assert kinds(Txn("1", "ok", listed=listed(x="a"))) == {"from nowhere"}
    one = Txn("1", "ok", read={"r": "0"})
    assert kinds(one, final=Txn("end", "ok", read={"r": "9"})) == {"from nowhere"}


def test_lost_update() -> None:
    one = Txn("1", "ok", read={"r": "0"}, wrote={"r": "1"})
    two = Txn("2", "ok", read={"r": "0"}, wrote={"r": "2"})
    assert "lost update" in kinds(one, two, final=Txn("end", "ok", read={"r": "2"}))


def test_a_torn_read() -> None:
    """One of two writes of a transaction is seen."""
    one = Txn("1", "ok", appended={"x": ["a"], "y": ["b"]})
    torn = Txn("2", "ok", listed=listed(x="a", y=""))
    assert kinds(one, torn, final=Txn("end", "ok", listed=listed(x="a", y="b"))) == {"G-single"}


def test_write_skew() -> None:
    one = Txn("1", "ok", read={"r": "0", "s": "0"}, wrote={"r": "1"})
    two = Txn("2", "ok", read={"r": "0", "s": "0"}, wrote={"s": "2"})
    assert kinds(one, two, final=Txn("end", "ok", read={"r": "1", "s": "2"})) == {"G2"}


def test_reads_that_fit_no_order() -> None:
    one = Txn("1", "ok", appended={"x": ["a"]}, listed=listed(x="a"))
    two = Txn("2", "ok", appended={"x": ["b"]}, listed=listed(x="b"))
    final = Txn("end", "ok", listed=listed(x="a b"))
    assert "incompatible order" in kinds(one, two, final=final)
