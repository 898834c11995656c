"""The rules of the optimizer: each a pure function in a file of its own; plan/optimize.py orders them.

    plan → plan, of the same rows

A rule's docstring holds a plan before and after; tests/fixtures/rules has more of them, which are also
run on DuckDB.
"""
