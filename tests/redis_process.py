"""A Redis that a test may kill, pause and start again at the same address."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.redis_server import free_port

# Kept on disk before anything is answered, and the opposite.
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
FORGETFUL = ("--appendonly", "no")


class RedisProcess:
    """A server process on a port of its own, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> None:
        """Start the server, and wait until it answers and the second of its start is over.

        For that second no guard vouches: the Redis may have been another one at its beginning.
        """
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--repl-diskless-sync-delay", "0"]  # a replica need not wait for another one
        process = subprocess.Popen(
            [*command, "--dir", str(self.folder), *options], stdout=subprocess.PIPE, text=True
        )
        self._process = process
        assert process.stdout is not None
        if not any("Ready to accept connections" in line for line in process.stdout):
            raise OSError("redis-server ended at once")
        time.sleep(1 - time.time() % 1)

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def pause(self) -> None:
        """Let the server hang: it keeps its connections and answers nobody."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the server go on, with what it was sent meanwhile."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def restart(self, *options: str) -> None:
        """Kill the server, and start it at the same address."""
        self.kill()
        self.start(*options)

    def command(self, *words: str | int) -> str:
        """Give a command as the operator would, and return what redis-cli prints."""
        command = ["redis-cli", "-e", "-p", str(self.port), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    """A running Redis for one test, which may do to it what it likes."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(5):
            # Another process may take the port before the server does.
            process = RedisProcess(Path(folder))
            with suppress(OSError):
                process.start(*FORGETFUL)
                break
        else:
            pytest.fail("no free port for redis-server")
        yield process
        process.kill()
