"""Session-wide servers for the suite, loaded as a pytest plugin.

A server that cannot be run here skips the tests that ask for it, unless the environment requires it.
"""

import os
import shutil
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.support.kafka_server import KafkaServer, KafkaUnavailable
from tests.support.milvus_server import MilvusServer, MilvusUnavailable


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap address of a broker: of ``LOOKUP_KAFKA_BOOTSTRAP`` if that is set, else of one started here.

    It is shared by the whole run: use topics and groups of your own.
    """
    if bootstrap := os.environ.get("LOOKUP_KAFKA_BOOTSTRAP"):
        yield bootstrap
        return
    try:
        server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    except KafkaUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_KAFKA", missing)
    with server:
        yield server.bootstrap


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Milvus: ``LOOKUP_MILVUS_URI`` if that is set, else one started here.

    It is shared by the whole run: use collections of your own.
    """
    if uri := os.environ.get("LOOKUP_MILVUS_URI"):
        yield uri
        return
    try:
        server = MilvusServer(tmp_path_factory.mktemp("milvus"))
    except MilvusUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_MILVUS", missing)
    with server:
        yield server.uri


def skip_unless_required(variable: str, missing: Exception) -> NoReturn:
    """Skip the test because of ``missing``, or fail it where the environment sets ``variable`` to 1."""
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1, but {missing}", pytrace=False)
    pytest.skip(f"{missing} ({variable}=1 makes this a failure)")


def require_tool(name: str) -> str:
    """Return the path of a command; skip the test without it, or fail where it must be there."""
    path = shutil.which(name)
    if path is None:
        skip_unless_required("LOOKUP_REQUIRE_TOOLS", FileNotFoundError(f"{name} is not installed"))
    return path
