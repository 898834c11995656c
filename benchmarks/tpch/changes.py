"""Windows of changes: the refresh functions of TPC-H (new and deleted orders), and updates.

A row is picked by its key and the window's number alone: an order and its items go together, two
runs pick the same rows, and no row comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.api import Anabranch

STEPS = 1_000_000
# Shares of a window's orders, and where each begins: new, deleted, items changed, status changed.
NEW, DELETED, REPRICED, MOVED = (0.0, 0.35), (0.35, 0.70), (0.70, 0.90), (0.90, 1.0)
# dbgen leaves the keys with these low bits free; an original order lends its columns to a new one.
ORIGINAL, GAP = "% 32 < 8", 8
BEYOND = 1 << 40  # after every key of every scale


@dataclass(frozen=True)
class Append:
    table: str
    query: str


@dataclass(frozen=True)
class Statement:
    text: str


Change = Append | Statement


@dataclass(frozen=True)
class Window:
    """One window of a series; the shares are of the rows at the start.

    Windows of one series have the same share of orders, or none, so that no order is picked twice.
    """

    number: int
    orders: float = 0.0  # orders that come, go or change
    others: float = 0.0  # customers, parts, offers and suppliers that change
    nations: bool = False  # whether two nations swap their names
    keys: int = 0  # the last key of the orders; then each part of a window has its keys together

    def __post_init__(self) -> None:
        if not 0 <= self.number * self.orders <= 1 - self.orders:
            raise ValueError(f"no orders are left for window {self.number}")

    def changes(self) -> tuple[Change, ...]:
        made: list[Change] = []
        if self.orders:
            made += [*new_orders(self), *old_orders(self)]
        if self.others:
            made += others(self)
        if self.nations:
            made.append(SWAP)
        return tuple(made)


def picked(key: str, low: float, high: float) -> str:
    """The rows whose key falls into a share of all keys, scattered over the table."""
    place = f"{key} * 48271 % 2147483647 % {STEPS}"
    return f"{place} >= {round(low * STEPS)} AND {place} < {round(high * STEPS)}"


def of_orders(window: Window, key: str, part: tuple[float, float]) -> str:
    """As dbgen's refresh sets do, which take and delete ranges of keys, or scattered."""
    start = window.number * window.orders
    low, high = (start + window.orders * edge for edge in part)
    if not window.keys:
        return picked(key, low, high)
    return f"{key} > {round(low * window.keys)} AND {key} <= {round(high * window.keys)}"


def of_others(window: Window, key: str) -> str:
    start = window.number * window.others % (1 - window.others)
    return picked(key, start, start + window.others)


def new_orders(window: Window) -> Iterator[Change]:
    """RF1: orders with their items, their keys in the gaps between the old ones."""
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        where = f"{of_orders(window, key, NEW)} AND {key} {ORIGINAL}"
        yield Append(table, copies(table, f"{key} + {GAP}", where))


def scattered_orders(number: int, share: float) -> tuple[Change, ...]:
    """Only new orders, their keys scattered."""
    return tuple(new_orders(Window(number, share / (NEW[1] - NEW[0]))))


def later_orders(number: int, orders: int) -> tuple[Change, ...]:
    """Only new orders, their keys together and after all the others.

    dbgen's first `orders` orders have the keys up to four times that number.
    """
    return tuple(_later(number, orders))


def _later(number: int, orders: int) -> Iterator[Change]:
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        where = f"{key} <= {4 * orders} AND {key} {ORIGINAL}"
        yield Append(table, copies(table, f"{key} + {number * BEYOND}", where))


def copies(table: str, key: str, where: str) -> str:
    """Rows like others of the table, under new keys; prices differ, so that no two orders tie."""
    if table == "orders":
        return f"""
            SELECT {key} AS o_orderkey, o_custkey, o_orderstatus,
                CAST(o_totalprice + o_orderkey % 9973 / 100.00 AS DECIMAL(15,2)) AS o_totalprice,
                o_orderdate, o_orderpriority, o_clerk, o_shippriority, o_comment
            FROM orders WHERE {where}"""
    return f"""
        SELECT {key} AS l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity,
            CAST(l_extendedprice + l_orderkey % 9973 / 100.00 AS DECIMAL(15,2)) AS l_extendedprice,
            l_discount, l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate,
            l_shipinstruct, l_shipmode, l_comment
        FROM lineitem WHERE {where}"""


def old_orders(window: Window) -> Iterator[Change]:
    """RF2: orders that go with their items; others get new prices or another status."""
    yield Statement(f"DELETE FROM orders WHERE {of_orders(window, 'o_orderkey', DELETED)}")
    yield Statement(f"DELETE FROM lineitem WHERE {of_orders(window, 'l_orderkey', DELETED)}")
    yield Statement(f"""
        UPDATE lineitem SET
            l_extendedprice = l_extendedprice + 10.25,
            l_discount = CASE WHEN l_discount >= 0.06 THEN l_discount - 0.03
                ELSE l_discount + 0.02 END,
            l_quantity = CASE WHEN l_orderkey % 2 = 0 THEN 60.00
                WHEN l_linenumber = 1 THEN 1.00 ELSE l_quantity END,
            l_returnflag = CASE WHEN l_returnflag = 'R' THEN 'A' ELSE l_returnflag END,
            l_receiptdate = CASE WHEN l_receiptdate > l_commitdate THEN l_commitdate
                ELSE l_receiptdate END
        WHERE {of_orders(window, "l_orderkey", REPRICED)}""")
    yield Statement(f"""
        UPDATE orders SET
            o_orderstatus = CASE WHEN o_orderstatus = 'F' THEN 'O' ELSE 'F' END,
            o_orderpriority = CASE WHEN o_orderpriority = '1-URGENT' THEN '5-LOW'
                ELSE '1-URGENT' END
        WHERE {of_orders(window, "o_orderkey", MOVED)}""")


def others(window: Window) -> Iterator[Change]:
    """Rows move into and out of what the queries ask for."""
    yield Statement(f"""
        UPDATE customer SET
            c_acctbal = c_acctbal + 1000.00,
            c_mktsegment = CASE WHEN c_mktsegment = 'BUILDING' THEN 'MACHINERY'
                ELSE 'BUILDING' END,
            c_phone = CASE WHEN c_custkey % 2 = 0 THEN concat('13', substring(c_phone, 3))
                ELSE c_phone END
        WHERE {of_others(window, "c_custkey")}""")
    yield Statement(f"""
        UPDATE part SET
            p_brand = CASE WHEN p_brand = 'Brand#23' THEN 'Brand#12' ELSE 'Brand#23' END,
            p_container = CASE WHEN p_container = 'MED BOX' THEN 'SM BOX' ELSE 'MED BOX' END,
            p_type = CASE WHEN p_partkey % 2 = 0 THEN 'PROMO PLATED BRASS'
                ELSE 'ECONOMY ANODIZED STEEL' END,
            p_size = CASE WHEN p_size = 15 THEN 3 WHEN p_partkey % 3 = 0 THEN 15 ELSE 5 END,
            p_name = CASE WHEN p_partkey % 2 = 0 THEN concat('forest ', p_name)
                ELSE concat(p_name, ' green') END
        WHERE {of_others(window, "p_partkey")}""")
    yield Statement(f"""
        UPDATE partsupp SET
            ps_supplycost = CASE WHEN ps_supplycost > 500 THEN ps_supplycost - 499.50
                ELSE ps_supplycost + 20.25 END,
            ps_availqty = ps_availqty + 100
        WHERE {of_others(window, "ps_partkey")}""")
    yield Statement(f"""
        UPDATE supplier SET
            s_acctbal = s_acctbal + 250.00,
            s_nationkey = (s_nationkey + 1) % 25,
            s_comment = CASE WHEN s_suppkey % 2 = 0 THEN 'Customer Complaints' ELSE s_comment END
        WHERE {of_others(window, "s_suppkey")}""")


SWAP = Statement("""
    UPDATE nation SET n_name = CASE WHEN n_name = 'FRANCE' THEN 'GERMANY' ELSE 'FRANCE' END
    WHERE n_name IN ('FRANCE', 'GERMANY')""")


def apply(ab: Anabranch, changes: tuple[Change, ...]) -> None:
    """All of them as one cut."""
    with ab.transaction():
        for change in changes:
            if isinstance(change, Append):
                ab.append(change.table, ab.sql(change.query))
            else:
                ab.sql(change.text)
