"""One worker process's part of one run: `r1perf.worker.Worker`, spoken to through frames."""

import contextlib
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from r1perf import messages
from r1perf.errors import R1perfError
from r1perf.journal import requests_path, snapshots_path
from r1perf.loop import Loop
from r1perf.result import Result
from r1perf.swarm import wire
from r1perf.swarm.numbered import Numbered
from r1perf.worker import Worker

PIECE_BYTES = 256 * 1024


class Part:
    """The link of one worker, and the worker. `transmit` sends a frame to the master, perhaps.

    `shared` tells whether a folder of the master's can be written from here; where not, the files go to a folder of this
    machine, under `runs`. `assigned` is told the assignment, and returns what is told every result; `ending` is called before the
    master is told that all is done, `refused` with the sentence that says why this worker cannot take part.
    """

    def __init__(
        self,
        run: str,
        loop: Loop,
        transmit: Callable[[wire.Frame], None],
        shared: Callable[[Path], bool],
        runs: Path,
        assigned: Callable[[messages.Assign], Callable[[Result], None]],
        ending: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self.run = run
        self._loop, self._shared, self._runs, self._assigned, self._ending = loop, shared, runs, assigned, ending
        self._refused = refused
        self.channel = Numbered(run, transmit, loop.now_ns)
        self.worker = Worker(loop, self, self._on_result)
        self.halted = False  # the master has asked for the end
        self.users = False  # sessions are started and ended from outside
        self._tell: Callable[[Result], None] = lambda result: None
        self._inbox: deque[messages.ToWorker] = deque()
        self._came = loop.event()
        self._ended = False
        self._over = loop.event()
        self._files: dict[str, Path] = {}
        self._folder: Path | None = None  # of this machine
        self._began = False  # t0 is known

    @property
    def over(self) -> bool:
        """Tell whether the worker has ended."""
        return self._over.is_set()

    def wait(self, until_ns: int) -> bool:
        """Wait until the worker has ended, or until then."""
        return self._over.wait(until_ns)

    def measure(self) -> None:
        """Run the worker to its end."""
        try:
            self.worker.run()
        except Exception as error:
            self.channel.send(wire.encode(wire.Broken(f"{type(error).__name__}: {error}")))
            raise
        finally:
            if not self._began:
                self._leave_nothing()
            self._over.set()

    def _leave_nothing(self) -> None:
        """Remove what a run that never began has made on this machine; the folder stays while it holds a file of anybody's."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                for path in self._files.values():
                    path.unlink(missing_ok=True)
                self._folder.rmdir()

    def take(self, frame: wire.Frame) -> None:
        """Take a frame from the master."""
        for body in self.channel.take(frame):
            message = wire.decode_to_member(body)
            if isinstance(message, wire.Over):
                self.end()
            elif isinstance(message, wire.Fetch):
                self._give(message)
            elif isinstance(message, messages.ToWorker):
                self.halted |= isinstance(message, messages.Halt)
                self._inbox.append(message)
                self._came.set()

    def end(self) -> None:
        """Let the worker know that nobody listens any more."""
        self._ended = True
        self._came.set()

    # --- The worker's link ---

    def send(self, message: messages.ToCollector) -> None:
        """Send without waiting."""
        if isinstance(message, messages.Ready) and self._folder is not None:
            message = msgspec.structs.replace(message, folder=str(self._folder))
        elif isinstance(message, messages.Done):
            self._ending()
        elif isinstance(message, messages.Refused) and not self._ended:  # a run that is over may leave nothing to reach
            self._refused(message.sentence)
        body = wire.encode(message)
        if isinstance(message, wire.UNNUMBERED):
            self.channel.post(body)
        else:
            self.channel.send(body)

    @property
    def unsent(self) -> bool:
        """Say that nothing waits on this side: what is sent may be lost."""
        return False

    def receive(self) -> "messages.ToWorker | None":
        """Wait for the next message; None when the master is gone, or has ended the run."""
        while not self._inbox:
            if self._ended:
                return None
            self._came.clear()
            self._came.wait()
        message = self._inbox.popleft()
        self._began |= isinstance(message, messages.Go)
        return self._settled(message) if isinstance(message, messages.Assign) else message

    def _settled(self, assign: messages.Assign) -> messages.Assign:
        """Give an assignment folders that this machine has, and remember what belongs to it."""
        folder, base = Path(assign.folder), Path(assign.base)
        if not self._shared(folder):
            folder = self._folder = (self._runs / folder.name).resolve()
            with contextlib.suppress(OSError):  # the journals will say in a sentence what is wrong
                folder.mkdir(parents=True, exist_ok=True)
        self.users = assign.users
        self._files = {path.name: path for path in (requests_path(folder, assign.worker), snapshots_path(folder, assign.worker))}
        with contextlib.suppress(R1perfError):  # the worker will refuse such a scenario, in a sentence
            self._tell = self._assigned(assign)
        base = base if base.is_dir() else Path.cwd()
        return msgspec.structs.replace(assign, folder=str(folder), base=str(base))

    # --- What is told, and given away ---

    def _on_result(self, result: Result) -> None:
        self._tell(result)

    def _give(self, fetch: wire.Fetch) -> None:
        """Send a piece of one of the worker's own files, and of no other."""
        path = self._files.get(fetch.name)
        if path is None or not path.exists():
            self.channel.post(wire.encode(wire.Piece(fetch.name, 0, 0, b"")))
            return
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(fetch.offset)
            data = file.read(PIECE_BYTES)
        self.channel.post(wire.encode(wire.Piece(fetch.name, fetch.offset, size, data)))
