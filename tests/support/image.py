"""An image's recipe carried out without a container daemon, by Linux' own namespaces and overlays.

This machine stands in for the base image. Every stage is an overlay over it whose changes live in memory:
steps run as they are written, with their own paths, and leave nothing behind.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from dockerfile_parse import DockerfileParser

STEP_TIMEOUT_S = 300.0

_SET_UP = """
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
for stage in build final; do
    mkdir "$1/$stage" "$1/$stage.changes" "$1/$stage.work"
    mount -t overlay overlay "$1/$stage" \
        -o "lowerdir=/,upperdir=$1/$stage.changes,workdir=$1/$stage.work"
    chmod o+x "$1/$stage/root"  # where this machine's Python may be
    mount --rbind /dev "$1/$stage/dev"
    mount --rbind /proc "$1/$stage/proc"
    mount -t tmpfs tmpfs "$1/$stage/tmp"
done
echo ready
exec cat  # until the test run that holds its other end is gone
"""


class SandboxUnavailable(RuntimeError):
    """This machine does not let us make namespaces and overlays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a recipe, its steps in order.

    Attributes:
        steps: Pairs of an instruction and its value, such as `("RUN", "make")`.
    """

    steps: tuple[tuple[str, str], ...]

    def values(self, instruction: str) -> list[str]:
        """Return the values of one instruction, in order."""
        return [value for name, value in self.steps if name == instruction]

    @property
    def environment(self) -> dict[str, str]:
        """What its ENV steps set."""
        pairs = (pair.partition("=") for value in self.values("ENV") for pair in shlex.split(value))
        return {name: value for name, _, value in pairs}

    @property
    def uid(self) -> int:
        """The user that it ends with, a number."""
        return int(self.values("USER")[-1].partition(":")[0])

    @property
    def command(self) -> list[str]:
        """What the image runs."""
        return [*json.loads(self.values("ENTRYPOINT")[-1]), *json.loads(self.values("CMD")[-1])]

    @property
    def health_check(self) -> list[str]:
        """The command that asks whether it is healthy."""
        return list(json.loads(self.values("HEALTHCHECK")[-1].partition("CMD ")[2]))


def read_recipe(file: Path) -> tuple[Stage, ...]:
    """Return the stages of a Dockerfile."""
    with file.open("rb") as recipe:
        structure: list[dict[str, Any]] = DockerfileParser(fileobj=recipe).structure
    stages: list[list[tuple[str, str]]] = []
    for step in structure:
        if step["instruction"] == "FROM":
            stages.append([])
        if step["instruction"] != "COMMENT":
            stages[-1].append((step["instruction"], step["value"]))
    return tuple(Stage(steps=tuple(steps)) for steps in stages)


@dataclass(slots=True, kw_only=True)
class Image:
    """A recipe of two stages, carried out by the user that the last one names.

    Attributes:
        recipe: The Dockerfile.
        context: The folder that it copies from.
        directory: A folder to be made, for the mounts.
    """

    recipe: Path
    context: Path
    directory: Path
    _holder: subprocess.Popen[str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Make the two stages' file systems.

        Raises:
            SandboxUnavailable: The machine does not allow it.
        """
        if os.geteuid() != 0:
            raise SandboxUnavailable("mounting needs root")
        self.directory.mkdir()
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", _SET_UP, "sh", str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline()
        if said != "ready\n":
            self._end()
            raise SandboxUnavailable(f"mounting failed: {said}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the namespace, and with it everything in the stages."""
        self._end()

    def build(self, environment: Mapping[str, str], *, read_only: Mapping[Path, str]) -> None:
        """Carry out the COPY and RUN steps of the first stage, and the COPY steps of the second.

        Args:
            environment: Added for the RUN steps.
            read_only: Folders of this machine to show in both stages, and where.
        """
        build, final = read_recipe(self.recipe)
        folder = "/"
        for shown, place in read_only.items():
            for stage in ("build", "final"):
                self._in_namespace("mkdir", "-p", self._path(stage, place))
                self._in_namespace("mount", "--bind", "-o", "ro", str(shown), self._path(stage, place))
        self._own("/opt", final.uid)
        for instruction, value in build.steps:
            if instruction == "WORKDIR":
                folder = value
                self._own(folder, final.uid)
            elif instruction == "COPY":
                self._copy(value, folder, final.uid)
            elif instruction == "RUN":
                step = self.command("build", ["sh", "-ec", value], environment, folder=folder, uid=final.uid)
                done = subprocess.run(
                    step, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False
                )
                assert done.returncode == 0, done.stdout + done.stderr
        for value in final.values("COPY"):
            origin, source, target = value.split()
            assert origin == "--from=build"
            self._in_namespace("cp", "-a", self._path("build", source), self._path("final", target))
        self._in_namespace("umount", self._path("final", "/tmp"))
        self._in_namespace("mount", "-o", "remount,bind,ro", self._path("final", "/"))

    def command(
        self,
        stage: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        folder: str = "/",
        uid: int,
    ) -> list[str]:
        """Return the command that runs another inside a stage.

        Args:
            stage: `build` or `final`; the latter is read-only.
            arguments: What to run.
            environment: Its environment, whole but for PATH, to which this machine's Python is added.
            folder: Where it runs.
            uid: Who runs it.
        """
        python = Path(sys.base_prefix) / "bin"
        path = environment.get("PATH", "$PATH").replace("$PATH", f"{python}:/usr/local/bin:/usr/bin:/bin")
        variables = {**environment, "PATH": path}
        return [
            *self._enter(),
            *("chroot", self._path(stage, "/")),
            *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"),
            *("env", "-i", f"--chdir={folder}", *(f"{name}={value}" for name, value in variables.items())),
            *arguments,
        ]

    def _copy(self, value: str, folder: str, uid: int) -> None:
        *sources, target = value.split()
        with _clean_copies(self.context, sources, self.directory.parent / "context") as copies:
            for copy in copies:
                place = self._path("build", str(PurePosixPath(folder) / target))
                self._in_namespace("cp", "-rT" if copy.is_dir() else "-r", str(copy), place)
        self._in_namespace("chown", "-R", str(uid), self._path("build", folder))

    def _own(self, folder: str, uid: int) -> None:
        self._in_namespace("mkdir", "-p", self._path("build", folder))
        self._in_namespace("chown", str(uid), self._path("build", folder))

    def _path(self, stage: str, path: str) -> str:
        return f"{self.directory}/{stage}{path}"

    def _enter(self) -> tuple[str, ...]:
        assert self._holder is not None
        return ("nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt")

    def _in_namespace(self, *arguments: str) -> None:
        subprocess.run([*self._enter(), *arguments], check=True, capture_output=True, timeout=STEP_TIMEOUT_S)

    def _end(self) -> None:
        if self._holder is not None:
            self._holder.communicate(timeout=STEP_TIMEOUT_S)


@contextmanager
def _clean_copies(context: Path, sources: Sequence[str], scratch: Path) -> Iterator[list[Path]]:
    """Yield copies of what a step takes, without what the context leaves out."""
    copies = [scratch / source for source in sources]
    for source, copy in zip(sources, copies, strict=True):
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (context / source).is_dir():
            shutil.copytree(context / source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(context / source, copy)
    yield copies
    shutil.rmtree(scratch)
