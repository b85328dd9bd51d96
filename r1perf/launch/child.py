"""What runs in a worker process: `python -m r1perf.launch.child`, spoken to through its standard input and output."""

from gevent import monkey

monkey.patch_all()  # first of all: for the openai SDK, whose sockets must not block the loop

import gc  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402

import gevent  # noqa: E402

from r1perf import messages  # noqa: E402
from r1perf.framing import Unframer, frame  # noqa: E402
from r1perf.loop import READ, WRITE  # noqa: E402
from r1perf.loop.gevent import GeventLoop  # noqa: E402
from r1perf.worker import Worker  # noqa: E402


class PipeLink:
    """The worker's end of the two pipes. Nothing here blocks: a collector that is paused must not stop the measuring."""

    def __init__(self, loop: GeventLoop, reader: int, writer: int) -> None:
        self._reader, self._writer = reader, writer
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._unframer = Unframer()
        self._unsent = bytearray()
        self._inbox: list[bytes] = []
        self._came = loop.event()
        self._ended = False
        self._loop = loop
        self._reading = loop.watch(reader, self._on_readable)
        self._reading.start(READ)
        self._writing = loop.watch(writer, self._write)

    def send(self, message: messages.ToCollector) -> None:
        """Queue a message; it goes out as the pipe takes it."""
        self._unsent += frame(messages.encode(message))
        self._write()

    @property
    def unsent(self) -> bool:
        """Tell whether the pipe has not taken all yet; what it takes is not lost."""
        return bool(self._unsent)

    def receive(self) -> "messages.ToWorker | None":
        """Wait for the next message; None when the collector is gone."""
        while not self._inbox:
            if self._ended:
                return None
            self._came.clear()
            self._came.wait()
        return messages.decode_to_worker(self._inbox.pop(0))

    def flush(self, until_ns: int) -> None:
        """Wait until all is written, or until then."""
        while self._unsent and not self._ended and self._loop.now_ns() < until_ns:
            self._loop.sleep_until(self._loop.now_ns() + 1_000_000)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._reader, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._inbox += self._unframer.feed(data)
        else:
            self._ended = True
            self._reading.stop()
        self._came.set()

    def _write(self) -> None:
        while self._unsent:
            try:
                written = os.write(self._writer, self._unsent)
            except BlockingIOError:
                self._writing.start(WRITE)
                return
            except BrokenPipeError:
                self._unsent.clear()
                break
            del self._unsent[:written]
        self._writing.stop()


def main() -> int:
    """Run one worker until it is done or its collector is gone."""
    # The pipes get descriptors of their own, and what anything prints by mistake goes to the log, not into a message.
    reader, writer = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = GeventLoop()
    link = PipeLink(loop, reader, writer)
    worker = Worker(loop, link)
    loop.on_error = worker.failed
    gevent.signal_handler(signal.SIGTERM, worker.terminate)
    # What has been imported lives to the end: the collector of cycles need not look at it during the run.
    gc.collect()
    gc.freeze()
    worker.run()
    link.flush(loop.now_ns() + 5_000_000_000)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
