"""Open a catalog; run as `python -m tests.contract.opening <url>`, which starts fast."""

from __future__ import annotations

import sys

from anabranch.catalog.store import Store

if __name__ == "__main__":
    store = Store.open(sys.argv[1])
    with store.writing():
        pass
    print(store.catalog_uuid)
    store.close()
