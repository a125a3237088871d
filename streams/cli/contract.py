"""`lookup-stage contract`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from pipeline.errors import ConfigurationError
from streams.output.files import STANDARD_OUTPUT, writing


@click.command(epilog="Example: lookup-stage contract --out contract/")
@click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write the files to, made where it is missing; - for standard output.",
)
@click.pass_obj
def contract(config_file: Path | None, *, folder: Path | None) -> None:
    """Write what agents can rely on as JSON Schemas and AsyncAPI.

    Without --out, prints the AsyncAPI 3.0 document, which holds the schemas as well. Names of topics and
    bounds of a request's widths are those of the settings.
    """
    from streams.contract.files import contract_files, written
    from streams.settings import loading

    settings = loading.load(config_file)
    files = contract_files(settings.kafka, settings.rag)
    if folder is None or folder == STANDARD_OUTPUT:
        click.echo(written(files["asyncapi.json"]), nl=False)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {folder}: cannot be written: {error.strerror}") from error
    with ExitStack() as outputs:  # all of them are written before the first has its name
        for name, content in files.items():
            outputs.enter_context(writing(folder / name)).write(written(content))
    for name in files:
        click.echo(folder / name)
