"""Free loopback ports for servers that are killed and started again on the same ports."""

import os
import random
import socket
import threading

# Below the kernel's ephemeral range (32768 up on Linux). While a server is down its clients keep dialling
# its port; were that port an ephemeral one, a dialling socket could be given it as its own source port,
# connect to itself, and keep the server from binding again.
_RANGE = range(20_000, 32_000)

# Test processes that run beside each other, which pytest-xdist names gw0, gw1, …, hand out different ports: a
# server that is down for a while must not lose its port to another process's.
_MOST_PROCESSES = 16
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _MOST_PROCESSES
_CANDIDATES = _RANGE[_PROCESS::_MOST_PROCESSES]

_handed_out: set[int] = set()
_lock = threading.Lock()


def free_port() -> int:
    """Return a loopback port nobody listens on; never the same one twice in this process."""
    with _lock:
        for port in random.sample(_CANDIDATES, k=len(_CANDIDATES)):
            if port not in _handed_out and _is_free(port):
                _handed_out.add(port)
                return port
    raise RuntimeError(f"no free loopback port between {_RANGE.start} and {_RANGE.stop}")


def free_ports(count: int) -> tuple[int, ...]:
    """Return ``count`` different free loopback ports."""
    return tuple(free_port() for _ in range(count))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
