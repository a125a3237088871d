"""`lookup-stage compare`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from streams.comparison.comparing import Comparison, ComparisonOptions
    from streams.comparison.relevance import Judgements
    from streams.comparison.reports.as_json import JsonReport
    from streams.comparison.thresholds import Check
    from streams.recordings.recording import RecordingUnreadable

FILE = click.Path(dir_okay=False, path_type=Path)
EXAMPLE = (
    "Example: lookup-stage compare base.jsonl.zst candidate.jsonl --html report.html"
    " --fail-under jaccard=0.98 --fail-under top1=0.99"
)


@click.command(epilog=EXAMPLE)
@click.argument("base", type=FILE)
@click.argument("candidate", type=FILE)
@click.option(
    "--fail-under",
    "thresholds",
    multiple=True,
    metavar="NAME=SHARE",
    help="Exit 1 where a share is smaller; may be given several times. Names: jaccard, rbo, top1,"
    " document-jaccard, document-rbo, document-top1, identical, retained (evidence), status (unchanged),"
    " joined (requests of BASE), and with --qrels ndcg, recall, mrr (of CANDIDATE).",
)
@click.option(
    "--qrels",
    type=FILE,
    help="Judgements in TREC's format, a line each: request id, 0, document id or evidence key, grade.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many of the first items Jaccard and the measures of relevance look at.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: requests that differ, and a summary.")
@click.option("--junit", type=FILE, help="Write JUnit XML, a test case for each threshold.")
@click.option("--html", type=FILE, help="Write one HTML page that needs no network.")
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="How many of the requests that changed most the page shows whole.",
)
@click.option("--keep-going", is_flag=True, help="Compare the lines before one that cannot be read.")
def compare(base: Path, candidate: Path, **options: Any) -> int:
    """Return what changed in the evidence between two files of recordings, and why.

    BASE and CANDIDATE are what `record` or `replay` wrote; requests are joined by their id. Without
    --fail-under this exits 0 whatever it finds.
    """
    from streams.comparison.comparing import ComparisonOptions
    from streams.comparison.reports.as_json import JsonReport
    from streams.comparison.thresholds import check, threshold

    for file in (options["junit"], options["html"]):
        if file is not None and not file.absolute().parent.is_dir():
            raise ConfigurationError(f"{file}: cannot be written: there is no such folder")
    qrels: Path | None = options["qrels"]
    thresholds = dict(threshold(text, judged=qrels is not None) for text in options["thresholds"])
    how = ComparisonOptions(
        depth=options["depth"],
        worst=options["worst"],
        judgements=None if qrels is None else _judgements(qrels),
    )
    json = JsonReport(sys.stdout.buffer) if options["as_json"] else None
    comparison = _compare(base, candidate, how, json, keep_going=options["keep_going"])
    checks = check(comparison, thresholds)
    _report(comparison, checks, json, junit=options["junit"], html=options["html"])
    return 0 if all(one.passed for one in checks) else 1


def _judgements(qrels: Path) -> Judgements:
    from streams.comparison.relevance import read_qrels

    try:
        import ir_measures  # noqa: F401 - said now, and not after an hour of comparing
    except ImportError:
        raise ConfigurationError("--qrels needs ir-measures: pip install 'lookup-stage[qrels]'") from None
    return read_qrels(qrels)


def _compare(
    base: Path, candidate: Path, options: ComparisonOptions, json: JsonReport | None, *, keep_going: bool
) -> Comparison:
    from streams.cli.progress import progress_of_steps
    from streams.comparison.comparing import Listener, compare_files

    with progress_of_steps() as progress:
        listener = Listener(
            progress=progress,
            difference=(lambda _: None) if json is None else json.add,
            unreadable=_warn if keep_going else None,
        )
        return compare_files(base, candidate, options, listener)


def _report(
    comparison: Comparison,
    checks: Sequence[Check],
    json: JsonReport | None,
    *,
    junit: Path | None,
    html: Path | None,
) -> None:
    from streams.comparison.reports.junit import junit_xml
    from streams.comparison.reports.page import html_page
    from streams.comparison.reports.terminal import print_comparison

    if junit is not None:
        _write(junit, junit_xml(comparison, checks))
    if html is not None:
        _write(html, html_page(comparison, checks))
    if json is not None:
        json.close(comparison, checks)
    else:
        print_comparison(comparison, checks)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be written: {error.strerror}") from error


def _warn(unreadable: RecordingUnreadable) -> None:
    click.echo(f"lookup-stage: {unreadable}; the lines before it are compared", err=True)
