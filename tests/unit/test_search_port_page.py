"""The page on another search: its test class is one that passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.pages import ROOT, text_of

TIMEOUT_S = 120


def test_suite_on_the_page_passes(tmp_path: Path) -> None:
    """Pytest collects the class where it is alone, and the port passes."""
    (tmp_path / "test_port.py").write_text(text_of("port-suite"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "test_port.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
