"""How many files this process may open, and room for them from the start: every connection is one."""

import contextlib
import fcntl
import os
import resource

LIMIT = 1 << 20
"""How many are asked for where the system sets no bound: what Linux allows a process at most by default (nr_open)."""
ROOM = 1 << 16
"""For how many room is made at once (512 KB of the kernel's memory), where the limit allows as many."""


def allow() -> None:
    """Raise the limit as far as the system allows (the usual 1024 are fewer than the requests in flight of a large run), and make room.

    Linux doubles a process's table of open files when it is full, and where threads share the table it first waits until every
    processor has let go of the old one (`expand_fdtable`, fs/file.c): 10 to 16 ms for whoever opens the 65th, the 257th, the 513th.
    The whole worker stood still in a connect, and every stream that it was reading with it. A table never shrinks.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT if hard == resource.RLIM_INFINITY else min(hard, LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it; then a full table is said when it comes
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    room = ROOM if soft == resource.RLIM_INFINITY else min(soft, ROOM)
    with contextlib.suppress(OSError):  # there is no room for the one file that is opened: said when a connection needs it
        low = os.open(os.devnull, os.O_RDONLY)
        try:
            os.close(fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, room - 1))
        finally:
            os.close(low)
