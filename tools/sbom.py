"""Writes a bill of materials (CycloneDX) from the lock file: `python tools/sbom.py [LOCK] [OUT]`.

One component for each pinned release, with the hashes of its files; nothing is asked of a network.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\]+?))?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if pin := _PIN.match(line):
            name, version, marker = pin.groups()
            purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
            found.append(
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                    "hashes": [],
                    **({"properties": [{"name": "marker", "value": marker}]} if marker else {}),
                }
            )
        for digest in _HASH.findall(line):
            found[-1]["hashes"].append({"alg": "SHA-256", "content": digest})
    return found


def sbom(lock: str) -> dict[str, Any]:
    parts = components(lock)
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    named = uuid.uuid5(uuid.NAMESPACE_URL, lock)  # equal locks have equal bills
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{named}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "anabranch",
                "name": "anabranch",
                "version": version[1],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": "anabranch", "dependsOn": [each["bom-ref"] for each in parts]}],
    }


def main() -> None:
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "requirements/runtime.txt"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build/sbom.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    found = sbom(lock.read_text("utf-8"))
    out.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(f"wrote {out}: {len(found['components'])} components")


if __name__ == "__main__":
    main()
