"""Run a simulator as a process: say where it listens, end on a signal or with its parent."""

import asyncio
import gc
import os
import signal
import sys

from r1perf import open_files
from r1perf.errors import UsageError
from r1perf.simulator.options import Options
from r1perf.simulator.server import Simulator, open_server


def serve(options: Options) -> int:
    """Serve until SIGTERM, SIGINT or the end of the parent; return the exit code.

    One line is printed on stdout once connections are accepted: `listening on URL`. Raises UsageError where the options can't
    be used or the address is taken. uvloop is used where it is installed.
    """
    options = options.checked()
    try:
        import uvloop
    except ImportError:
        factory = asyncio.new_event_loop
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_serve(options))


async def _serve(options: Options) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    open_files.allow()
    sim = Simulator(options, loop)
    try:
        server, url = await open_server(sim, loop)
        if options.parent_pipe is not None:
            _watch_parent(loop, options.parent_pipe, stopped)
        # A collection of a young heap takes a fraction of a millisecond; one of everything would show in the timetable.
        gc.freeze()
        sys.stdout.write(f"listening on {url}\n")
        sys.stdout.flush()
        await stopped.wait()
        server.close()
    finally:
        sim.stop()
    await asyncio.sleep(0)  # connections that were reset are told so
    return 0


def _watch_parent(loop: asyncio.AbstractEventLoop, fd: int, stopped: asyncio.Event) -> None:
    """Stop when the other end of the pipe has been closed."""

    def readable() -> None:
        try:
            if os.read(fd, 4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        loop.remove_reader(fd)
        stopped.set()

    try:
        os.set_blocking(fd, False)
        loop.add_reader(fd, readable)
    except OSError as error:
        raise UsageError(f"--parent-pipe {fd} is not a pipe that is open: {os.strerror(error.errno or 0).lower()}") from error
