"""A project on disk from a few texts."""

from __future__ import annotations

from pathlib import Path

from anabranch.project import Project, load

ORDERS = "CREATE TABLE orders (id BIGINT NOT NULL, region STRING, amount DECIMAL(12,2), at DATE)"
REVENUE = (
    "CREATE STREAM TABLE revenue AS SELECT region, sum(amount) AS total FROM orders GROUP BY region"
)


def project(folder: Path, profile: str | None = None, toml: str = "", **files: str) -> Project:
    """`orders=…` is models/shop/sales/orders.sql; `other__x=…` is schema other; `clusters__c=…`."""
    (folder / "models").mkdir(exist_ok=True)
    (folder / "anabranch.toml").write_text(toml)
    for name, text in files.items():
        schema, _, rest = name.rpartition("__")
        path = folder / f"models/shop/{schema or 'sales'}/{rest}.sql"
        if schema == "clusters":
            path = folder / f"clusters/{rest}.sql"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load(folder, profile)


def mistakes(found: Project) -> list[str]:
    """Every mistake as `file:line:column: message | hint`."""
    return [
        f"{each.file.rsplit('/', 1)[-1]}:{each.line}:{each.column}: {each.message} | {each.hint}"
        for each in found.compiled.problems
    ]
