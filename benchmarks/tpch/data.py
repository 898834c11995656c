"""The eight tables of TPC-H, made by `tpchgen-cli` for a scale factor."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from anabranch.api import Anabranch

TABLES = {
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "supplier": """s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT,
        s_phone STRING, s_acctbal DECIMAL(15,2), s_comment STRING""",
    "customer": """c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT,
        c_phone STRING, c_acctbal DECIMAL(15,2), c_mktsegment STRING, c_comment STRING""",
    "part": """p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING,
        p_size INT, p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING""",
    "partsupp": """ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT,
        ps_supplycost DECIMAL(15,2), ps_comment STRING""",
    "orders": """o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING,
        o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_clerk STRING,
        o_shippriority INT, o_comment STRING""",
    "lineitem": """l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT,
        l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2),
        l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE,
        l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING,
        l_comment STRING""",
}
ORDERS = 1_500_000  # at scale 1; lineitem has four times as many rows
KEYS_PER_ORDER = 4  # dbgen uses 8 keys of 32


def generate(scale: float, folder: Path) -> dict[str, Path]:
    """One Parquet file per table; the same scale gives the same rows, everywhere."""
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or "tpchgen-cli"
    folder.mkdir(parents=True, exist_ok=True)
    # Field ids would be taken for those of our own tables.
    options = ["--scale-factor", f"{scale:g}", "--field-ids", "false", "--output-dir", str(folder)]
    subprocess.run([program, "parquet", "--quiet", *options], check=True)
    return {name: folder / f"{name}.parquet" for name in TABLES}


def fill(ab: Anabranch, files: dict[str, Path]) -> None:
    """Create the tables and append the files, as one cut."""
    with ab.transaction():
        for name, columns in TABLES.items():
            ab.sql(f"CREATE TABLE {name} ({columns})")
            ab.append(name, ab.spark.read.parquet(str(files[name])))
