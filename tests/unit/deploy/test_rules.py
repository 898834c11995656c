"""The rules are the contract: said once in code, shown on the page, each with words."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.datalog.rule import Rule
from anabranch.deploy.rules import BUILD_RULES, DIRTY_RULES, WORDS

PAGE = Path(__file__).parents[3] / "docs" / "deployments.md"


def shown() -> set[str]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if ":-" in line]
    return {str(Rule.parse(line)) for line in lines}


def test_the_page_shows_the_rules_that_run() -> None:
    assert shown() == {str(rule) for rule in (*DIRTY_RULES, *BUILD_RULES)}


def test_clusters_become_dirty_by_changed_statements_alone() -> None:
    for rule in DIRTY_RULES:
        if rule.head.relation == "DirtyCluster":
            assert rule.body[0].relation == "ChangedStmt"


def test_only_propagating_dirtiness_reaches_schemas_and_dependants() -> None:
    used = {
        atom.relation
        for rule in DIRTY_RULES
        if rule.head.relation in ("DirtySchema", "SP")
        for atom in rule.body
    }
    assert "DirtyStmt" not in used


def test_words_name_only_what_a_rule_binds() -> None:
    for text, words in WORDS.items():
        bound = {term for atom in Rule.parse(text).body for term in atom.terms}
        assert set(re.findall(r"\{(\w+)\}", words)) <= bound | {"change"}
