"""What several tests of the chart share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fixtures import skip_unless_required
from tests.support.helm import HelmUnavailable, fetch_helm


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return Helm."""
    try:
        return fetch_helm()
    except HelmUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_TOOLS", missing)
