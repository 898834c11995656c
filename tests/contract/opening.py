"""Open a catalog; run as `python -m tests.contract.opening <url> [killed]`, which starts fast.

`killed`: a further migration kills the process when all the others are done.
"""

from __future__ import annotations

import os
import signal
import sys

from anabranch.catalog import migrations
from anabranch.catalog.store import Connection, Store


def kill(c: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[2:] == ["killed"]:
        last = migrations.FORMAT_VERSION + 1
        migrations.MIGRATIONS = {**migrations.MIGRATIONS, last: kill}
        migrations.FORMAT_VERSION = last
    store = Store.open(sys.argv[1])
    with store.writing():
        pass
    print(store.catalog_uuid)
    store.close()
