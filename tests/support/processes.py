"""One server process: started, waited for, stopped or killed, and never outliving the test run."""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PROBE_INTERVAL_S = 0.05
_TAIL_LINES = 40

# The kernel sends the parent-death signal when the *thread* that started the child ends, not the process.
# Servers are therefore started from one thread that lives as long as the interpreter: a server started
# through `asyncio.to_thread` must not die with that event loop's executor.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="server-starter")


class ServerFailed(RuntimeError):
    """A server did not start; the message carries the tail of its logs."""


class ServerProcess:
    """A server command that can be run again and again, one process at a time."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        environment: Mapping[str, str],
        logs: Sequence[Path] = (),
    ) -> None:
        """Describe the server; nothing is started.

        Args:
            command: The program and its arguments.
            directory: Existing working directory; standard output and error go to ``console.log`` in it.
            environment: The whole environment of the process.
            logs: Files the server writes itself, shown beside the console when it fails to start.
        """
        self._command = tuple(command)
        self._directory = directory
        self._environment = dict(environment)
        self._console = directory / "console.log"
        self._logs = (self._console, *logs)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while the server runs, else None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self, is_ready: Callable[[], bool], *, deadline_s: float) -> None:
        """Start the process and wait until ``is_ready`` says yes.

        Raises:
            ServerFailed: It exited, or was not ready within ``deadline_s`` (it is then killed).
        """
        if self.pid is not None:
            raise RuntimeError(f"already running as process {self.pid}")
        process = self._process = _starter.submit(self._spawn).result()
        try:
            self._wait_for(process, is_ready, deadline_s)
        except BaseException:
            self.kill()
            raise

    def stop(self, *, grace_s: float) -> None:
        """End the process with SIGTERM, and with SIGKILL once ``grace_s`` have passed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the process with SIGKILL and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._console.open("ab") as console:
            return subprocess.Popen(
                (*_parent_death_guard(), *self._command),
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches the whole foreground group: fixtures, not the terminal, end the server.
                start_new_session=True,
            )

    def _wait_for(
        self, process: subprocess.Popen[bytes], is_ready: Callable[[], bool], deadline_s: float
    ) -> None:
        give_up_at = time.monotonic() + deadline_s
        while not is_ready():
            if process.poll() is not None:
                raise self._failure(f"exited with status {process.returncode}")
            if time.monotonic() > give_up_at:
                raise self._failure(f"was not ready after {deadline_s:g} s")
            time.sleep(_PROBE_INTERVAL_S)

    def _failure(self, what: str) -> ServerFailed:
        tails = "\n".join(f"--- {log} ---\n{_tail(log)}" for log in self._logs if log.is_file())
        return ServerFailed(f"{self._command[0]} {what}\n{tails}")


def _parent_death_guard() -> tuple[str, ...]:
    """Prefix under which a command is killed with the test process, even one that ends by SIGKILL."""
    setpriv = shutil.which("setpriv")  # util-linux; elsewhere servers may outlive a killed test run
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv is not None else ()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
