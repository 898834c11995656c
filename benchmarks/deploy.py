"""One changed leaf, then one changed root of a large project, against deploying all of it.

    python -m benchmarks.deploy --tables 200 --rows 100000

A tenth of the stream tables are roots that read one source table; the others are leaves, each of
which reads one root.  A root and its leaves are a schema.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import anabranch
from anabranch.api import Anabranch

FACTS = "CREATE TABLE facts (id BIGINT, k BIGINT, amount BIGINT)"
LEAVES = 9  # of every root


@dataclass(frozen=True)
class Result:
    change: str
    built: int
    kept: int
    rows_read: int
    stage_s: float
    promote_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-deploy-", dir=options.dir) as place:
        project = Path(place) / "bench"
        ab = anabranch.connect(Path(place) / "home")
        try:
            results = measure(ab, project, options.tables, options.rows, console)
            start = time.perf_counter()
            ab.rollback()
            back = time.perf_counter() - start
        finally:
            ab.close()
    show(results, back)
    if options.out:
        found = {"tables": options.tables, "rows": options.rows, "rollback_s": round(back, 3)}
        found["results"] = [asdict(each) for each in results]
        Path(options.out).write_text(json.dumps(found, indent=1) + "\n")


def measure(ab: Anabranch, project: Path, tables: int, rows: int, console: Console) -> list[Result]:
    ab.sql(FACTS.replace("facts", "bench.raw.facts"))
    ab.sql(f"INSERT INTO bench.raw.facts SELECT id, id % 100, id % 1000 FROM range({rows})")
    write(project, tables)
    results = [deploy(ab, project, "everything")]
    console.print(results[-1])
    edit(project / "models/bench/s0/leaf_0.sql", "sum(amount)", "max(amount)")
    results.append(deploy(ab, project, "one leaf"))
    console.print(results[-1])
    edit(project / "models/bench/s1/root.sql", "amount >", "amount >=")
    results.append(deploy(ab, project, "one root"))
    return results


def write(project: Path, tables: int) -> None:
    files = {"anabranch.toml": 'name = "bench"', "models/bench/raw/facts.sql": FACTS}
    for number in range(tables):
        schema, at = divmod(number, LEAVES + 1)
        folder = f"models/bench/s{schema}"
        if at == 0:
            text = f"CREATE STREAM TABLE root AS SELECT * FROM raw.facts WHERE amount > {schema}"
            files[f"{folder}/root.sql"] = text
        else:
            text = f"SELECT k, sum(amount) AS total FROM root WHERE k <> {at} GROUP BY k"
            files[f"{folder}/leaf_{at - 1}.sql"] = f"CREATE STREAM TABLE leaf_{at - 1} AS {text}"
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def deploy(ab: Anabranch, project: Path, change: str) -> Result:
    plan = ab.plan(str(project))
    actions = [step.action.value for step in plan.steps]
    start = time.perf_counter()
    made = ab.stage(str(project))
    staged = time.perf_counter()
    assert made is not None
    lines = [line for line in ab.history() if f"__{made}." in line["table"]]
    before = time.perf_counter()
    ab.promote(made)
    end = time.perf_counter()
    return Result(
        change,
        actions.count("build"),
        actions.count("keep"),
        sum(line["source_rows"] or 0 for line in lines),
        round(staged - start, 2),
        round(end - before, 2),
    )


def show(results: Sequence[Result], back: float) -> None:
    everything = results[0]
    table = Table(title="a deployment after a change")
    for name in ("change", "built", "kept", "rows read", "stage", "promote", "against all"):
        table.add_column(name, justify="left" if name == "change" else "right")
    for each in results:
        ratio = everything.stage_s / each.stage_s if each.stage_s else 0
        table.add_row(
            each.change,
            str(each.built),
            str(each.kept),
            f"{each.rows_read:,}",
            f"{each.stage_s:.1f} s",
            f"{each.promote_s:.1f} s",
            f"{ratio:.0f}×",
        )
    console = Console()
    console.print(table)
    console.print(f"roll-back of the last one: {back:.2f} s")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dir", help="folder for the data")
    parser.add_argument("--out", help="write the figures to a JSON file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
