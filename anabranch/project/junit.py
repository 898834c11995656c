"""Results of unit tests as the XML that build servers read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from anabranch.project.unit_tests import ERROR, FAILED, Result


def junit(results: Sequence[Result]) -> str:
    suite = ElementTree.Element(
        "testsuite",
        name="anabranch",
        tests=str(len(results)),
        failures=str(sum(each.outcome == FAILED for each in results)),
        errors=str(sum(each.outcome == ERROR for each in results)),
        time=f"{sum(each.seconds for each in results):.3f}",
    )
    for result in results:
        file, line = result.place.rsplit(":", 1)
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=str(result.key),
            name=result.test.name,
            file=file,
            line=line,
            time=f"{result.seconds:.3f}",
        )
        if result.outcome == ERROR:
            ElementTree.SubElement(case, "error", message=result.error or "")
        elif result.outcome == FAILED:
            failure = ElementTree.SubElement(case, "failure", message=summary(result))
            failure.text = "\n".join(difference(result))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def summary(result: Result) -> str:
    return f"{result.missing_rows} missing and {result.unexpected_rows} unexpected rows"


def difference(result: Result) -> list[str]:
    """One line for each differing row; `×2` for one that is missing twice."""
    return [
        *(f"missing    {_row(each)}" for each in result.missing),
        *(f"unexpected {_row(each)}" for each in result.unexpected),
    ]


def _row(each: Mapping[str, Any]) -> str:
    times = f" ×{each['count']}" if each["count"] > 1 else ""
    return json.dumps(each["row"], ensure_ascii=False, default=str) + times
