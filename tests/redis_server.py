"""A real Redis for the tests of what lives in one, started on a free port."""

import shutil
import socket
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

import pytest

PASSWORD = "pa/ss@word#1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(port: int, *options: str) -> Generator[None]:
    """Run a server that keeps nothing on disk, and wait until it answers."""
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if "Ready to accept connections" in line:
                    yield
                    return
            raise OSError("redis-server ended at once")
        finally:
            server.kill()


@pytest.fixture(scope="module")
def redis_port() -> Iterator[int]:
    """The port of a server for the tests of one file."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    for _ in range(5):
        # Another process may take the port before the server does.
        port = free_port()
        with suppress(OSError), running(port):
            yield port
            return
    pytest.fail("no free port for redis-server")


@pytest.fixture
def redis_url(redis_port: int) -> str:
    """The address of a keyring that no other test uses."""
    return f"redis://127.0.0.1:{redis_port}/0?key=ring-{free_port()}"
