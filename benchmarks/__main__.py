"""`python -m benchmarks`: every benchmark; `--large` adds 100 million rows."""

from __future__ import annotations

import sys

from benchmarks import closure, deploy, graph, idle, refresh

if __name__ == "__main__":
    large = "--large" in sys.argv
    sys.argv = [sys.argv[0], *(argument for argument in sys.argv[1:] if argument != "--large")]
    idle.main()
    graph.main([])
    deploy.main([])
    closure.main([])
    refresh.main([100_000_000] if large else [1_000_000, 10_000_000])
