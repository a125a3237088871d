"""A comparison as JUnit XML: a test case for each threshold."""

from __future__ import annotations

import re
from collections.abc import Sequence

from junitparser import Failure, JUnitXml, TestCase, TestSuite

from streams.comparison.comparing import Comparison
from streams.comparison.findings import findings
from streams.comparison.reports.words import share, why
from streams.comparison.thresholds import Check

MAX_NAMED_REQUESTS = 20

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(comparison: Comparison, checks: Sequence[Check]) -> str:
    """Return a test case for each threshold; where there is none, one that says what was found and passes."""
    suite = TestSuite("lookup-stage compare")
    text = xml_text("\n".join([*findings(comparison), *_worst(comparison)]))
    for one in checks:
        case = TestCase(f"{one.name} is at least {one.threshold:g}", "lookup-stage.compare")
        if not one.passed:
            failure = Failure(f"{one.name} is {share(one.value)}, must be at least {one.threshold:g}")
            failure.text = text
            case.result = [failure]
        suite.add_testcase(case)
    if not checks:
        case = TestCase("the evidence was compared", "lookup-stage.compare")
        case.system_out = text
        suite.add_testcase(case)
    document = JUnitXml()
    document.add_testsuite(suite)
    xml: bytes = document.tostring()  # type: ignore[no-untyped-call]
    return xml.decode()


def xml_text(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _worst(comparison: Comparison) -> list[str]:
    return [
        f"{difference.base.request_id}: {difference.change}, {len(difference.lost)} lost,"
        f" {len(difference.new)} new. {why(difference)}"
        for difference in comparison.worst[:MAX_NAMED_REQUESTS]
    ]
