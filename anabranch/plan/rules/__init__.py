"""The rules of the optimizer: each a pure function in its own file; plan/optimize.py orders them.

    plan → plan, of the same rows

A rule's docstring shows a plan before and after; tests/fixtures/rules has more, which also run on
DuckDB.
"""
