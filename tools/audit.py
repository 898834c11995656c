"""Asks the OSV database about known weaknesses of every pinned release: `python tools/audit.py [LOCK]`.

Exit code 0: none is known; 1: some are, and are listed; 3: the database could not be asked, so nothing
is known either way.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from sbom import ROOT, components

SERVICE = "https://api.osv.dev/v1/querybatch"


def ask(parts: list[dict[str, Any]]) -> list[list[str]]:
    """The identifiers of the weaknesses of each release."""
    queries = [
        {"version": each["version"], "package": {"name": each["name"], "ecosystem": "PyPI"}}
        for each in parts
    ]
    request = urllib.request.Request(
        SERVICE,
        json.dumps({"queries": queries}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        results = json.load(answer)["results"]
    if len(results) != len(parts):
        raise ValueError(f"{len(results)} answers to {len(parts)} questions")
    return [[found["id"] for found in each.get("vulns", [])] for each in results]


def main() -> int:
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "requirements/dev.txt"
    parts = components(lock.read_text("utf-8"))
    try:
        found = ask(parts)
    except (OSError, ValueError, KeyError) as error:
        print(f"NOT AUDITED: {SERVICE} could not be asked: {error}", file=sys.stderr)
        return 3
    wrong = [(each, ids) for each, ids in zip(parts, found, strict=True) if ids]
    for each, ids in wrong:
        print(f"{each['name']} {each['version']}: {', '.join(ids)}")
    print(f"{len(parts)} releases of {lock.name} audited, {len(wrong)} with known weaknesses")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
