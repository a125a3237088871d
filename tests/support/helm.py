"""Helm, built from its Go module: there is no package of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.cache import cached_directory

VERSION = "v3.22.0"
KUBERNETES = "1.31.0"
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "lookup-stage"

_BUILD_TIMEOUT_S = 900.0
_RUN_TIMEOUT_S = 60.0


class HelmUnavailable(RuntimeError):
    """Helm cannot be built here."""


class HelmFailed(RuntimeError):
    """Helm refused; the message is what it said."""


def fetch_helm() -> Path:
    """Return the path of Helm, building it the first time, which takes some minutes.

    Raises:
        HelmUnavailable: There is no Go, or the build failed.
    """
    return cached_directory(f"helm-{VERSION}", _build) / "helm"


def run_helm(helm: Path, *arguments: str) -> str:
    """Run a command of Helm and return what it printed.

    Raises:
        HelmFailed: It exited with something else than 0.
    """
    done = subprocess.run(
        [helm, *arguments], capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise HelmFailed(done.stdout + done.stderr)
    return done.stdout


def render(helm: Path, *options: str) -> list[dict[str, Any]]:
    """Return the manifests of a release named `test`, hooks included.

    Args:
        helm: Its path.
        options: Such as `--set-json=keda.enabled=true`.

    Raises:
        HelmFailed: The values are not valid, or the templates are not.
    """
    text = run_helm(helm, "template", "test", str(CHART), "--kube-version", KUBERNETES, *options)
    return [manifest for manifest in yaml.safe_load_all(text) if manifest is not None]


def _build(directory: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise HelmUnavailable("building Helm needs go, which is not on the PATH")
    command = (go, "install", "-trimpath", "-ldflags=-s -w", f"helm.sh/helm/v3/cmd/helm@{VERSION}")
    try:
        subprocess.run(
            command,
            env=os.environ | {"GOBIN": str(directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise HelmUnavailable(f"building Helm {VERSION} failed: {error}\n{error.output}") from error
