"""`lookup-stage compare`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.errors import ConfigurationError
from streams.cli.options import count
from streams.output.files import STANDARD_OUTPUT, Output, check_kept, writing

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
    type=count(),
    default=10,
    show_default=True,
    help="How many of the first items Jaccard and the measures of relevance look at.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: requests that differ, and a summary.")
@click.option(
    "--junit", type=FILE, help="Write JUnit XML, a test case for each threshold; - for standard output."
)
@click.option("--html", type=FILE, help="Write one HTML page that needs no network; - for standard output.")
@click.option(
    "--worst",
    type=count(minimum=0),
    default=100,
    show_default=True,
    help="How many of the requests that changed most the page shows whole.",
)
@click.option("--keep-going", is_flag=True, help="Compare the lines before one that cannot be read.")
def compare(base: Path, candidate: Path, **options: Any) -> int:
    """Say what changed in the evidence between two files of recordings, and why.

    BASE and CANDIDATE are what `record` or `replay` wrote; requests are joined by their id. Without
    --fail-under this exits 0 whatever it finds.
    """
    from streams.comparison.comparing import ComparisonOptions
    from streams.comparison.thresholds import check, threshold

    files = _report_files(base, candidate, options)
    qrels: Path | None = options["qrels"]
    thresholds = dict(threshold(text, judged=qrels is not None) for text in options["thresholds"])
    how = ComparisonOptions(
        depth=options["depth"],
        worst=options["worst"],
        judgements=None if qrels is None else _judgements(qrels),
    )
    with ExitStack() as opened:  # before anything is read, which may take long
        outputs = {name: opened.enter_context(writing(file)) for name, file in files.items()}
        json = _json_report(outputs)
        comparison = _compare(base, candidate, how, json, keep_going=options["keep_going"])
        checks = check(comparison, thresholds)
        _report(comparison, checks, json, outputs)
    if STANDARD_OUTPUT not in files.values():
        from streams.cli.terminal import console
        from streams.comparison.reports.terminal import print_comparison

        print_comparison(comparison, checks, console())
    return 0 if all(one.passed for one in checks) else 1


def _report_files(base: Path, candidate: Path, options: dict[str, Any]) -> dict[str, Path]:
    """Return the report files by kind: each of its own, and none of the files that are read."""
    files: dict[str, Path] = {name: options[name] for name in ("junit", "html") if options[name] is not None}
    if options["as_json"]:
        files["json"] = STANDARD_OUTPUT
    read = {"a file that is compared": base, "the other file that is compared": candidate}
    if options["qrels"] is not None:
        read["the file of --qrels"] = options["qrels"]
    for name, file in files.items():
        check_kept(f"--{name}", file, read)
        if list(files.values()).count(file) > 1:
            raise ConfigurationError(f"--{name} {file}: must not be the output of two reports")
    return files


def _json_report(outputs: dict[str, Output]) -> JsonReport | None:
    from streams.comparison.reports.as_json import JsonReport

    return JsonReport(outputs["json"]) if "json" in outputs else None


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
    outputs: dict[str, Output],
) -> None:
    from streams.comparison.reports.junit import junit_xml
    from streams.comparison.reports.page import html_page

    if "junit" in outputs:
        outputs["junit"].write(junit_xml(comparison, checks).encode())
    if "html" in outputs:
        outputs["html"].write(html_page(comparison, checks).encode())
    if json is not None:
        json.close(comparison, checks)


def _warn(unreadable: RecordingUnreadable) -> None:
    click.echo(f"lookup-stage: {unreadable}; the lines before it are compared", err=True)
