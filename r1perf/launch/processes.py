"""The collector's side: worker children, their pipes, and what becomes of them."""

import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import IO, Self

import msgspec

from r1perf import messages
from r1perf.framing import Unframer, frame


class Gone(msgspec.Struct, frozen=True):
    """A worker process has ended; `code` is its exit code, negative for a signal."""

    code: int


class _Child:
    """One worker process."""

    def __init__(self, name: str, log: IO[bytes]) -> None:
        self.name = name
        # A session of its own: a Ctrl-C at the terminal reaches the collector alone, which then asks the workers to drain.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "r1perf.launch.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self.stdin.fileno(), False)
        os.set_blocking(self.stdout.fileno(), False)
        self.unsent = bytearray()
        self.unframer = Unframer()

    def write(self) -> None:
        """Write what can be written now: a stopped worker must not stop the collector."""
        while self.unsent:
            try:
                written = os.write(self.stdin.fileno(), self.unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.unsent.clear()
                return
            del self.unsent[:written]


class Workers:
    """Worker children by name. Use it as a context: what is still running at its end is killed and reaped."""

    def __init__(self, count: int, folder: Path) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: dict[str, _Child] = {}
        self._logs: dict[str, Path] = {}
        for index in range(count):
            name = str(index)
            self._logs[name] = folder / f"worker.{name}.log"
            with self._logs[name].open("wb") as log:
                child = _Child(name, log)
            self._children[name] = child
            self._selector.register(child.stdout, selectors.EVENT_READ, child)

    @property
    def names(self) -> list[str]:
        """List the workers, those that have ended too."""
        return list(self._logs)

    def pid(self, worker: str) -> int:
        """Return the process id of a running worker."""
        return self._children[worker].process.pid

    def log(self, worker: str) -> Path:
        """Return the file that holds what the worker wrote to its standard error."""
        return self._logs[worker]

    def send(self, worker: str, message: messages.ToWorker) -> None:
        """Send a message; one to a worker that has ended is dropped (its `Gone` tells)."""
        child = self._children.get(worker)
        if child is not None:
            child.unsent += frame(messages.encode(message))
            child.write()

    def receive(self, timeout_s: float) -> list[tuple[str, "messages.ToCollector | Gone"]]:
        """Wait until something has come, or for `timeout_s`; return it in order, per worker."""
        came: list[tuple[str, messages.ToCollector | Gone]] = []
        for child in self._children.values():
            child.write()
        if not self._children:
            return came
        for key, _ in self._selector.select(timeout_s):
            child = key.data
            ended = False
            while True:
                try:
                    data = os.read(child.stdout.fileno(), 1 << 20)
                except BlockingIOError:
                    break
                if not data:
                    ended = True
                    break
                came.extend((child.name, messages.decode_to_collector(message)) for message in child.unframer.feed(data))
            if ended:
                came.append((child.name, Gone(self._reap(child))))
        return came

    def _reap(self, child: _Child) -> int:
        self._selector.unregister(child.stdout)
        del self._children[child.name]
        child.stdin.close()
        child.stdout.close()
        try:
            return child.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.process.kill()
            return child.process.wait()

    def __enter__(self) -> Self:
        return self

    def kill(self, worker: str) -> None:
        """Kill a worker that does not answer; its `Gone` follows."""
        child = self._children.get(worker)
        if child is not None:
            child.process.kill()

    def __exit__(self, *_: object) -> None:
        for child in self._children.values():
            child.stdin.close()  # an orphan ends by itself, its files complete
        for child in list(self._children.values()):
            self._reap(child)
        self._selector.close()
        for log in self._logs.values():
            if log.exists() and log.stat().st_size == 0:
                log.unlink()
