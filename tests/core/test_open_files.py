"""Room for open files, in a process of its own: neither its limit nor its table comes back."""

import resource
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
{make}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*resource.getrlimit(resource.RLIMIT_NOFILE), int(status["FDSize"]))
"""

MAKERS = {
    "transport": "from r1perf.loop.sim import SimLoop; from r1perf.transport.http import HttpTransport\n"
    "HttpTransport(SimLoop(), 'http://127.0.0.1:1', connect_timeout_ns=1)",
    "nothing": "",
}


def table(maker: str, soft: int, hard: int) -> tuple[int, int, int]:
    """Return the limit of open files, soft and hard, and for how many the kernel holds a table."""
    program = [sys.executable, "-c", PROGRAM.format(make=MAKERS[maker]), str(soft), str(hard)]
    soft, hard, size = map(int, subprocess.run(program, capture_output=True, text=True, check=True).stdout.split())
    return soft, hard, size


@pytest.mark.parametrize(
    ("hard", "size"),
    [pytest.param(1000, 1024, id="as many as are allowed"), pytest.param(1 << 20, 65536, id="no more than needed")],
)
def test_a_transport_raises_the_limit_and_makes_room_for_every_connection(hard, size):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = min(hard, most) if most >= 0 else hard
    size = min(size, 1 << (hard - 1).bit_length())
    assert table("transport", 512, hard) == (hard, hard, size)
    assert table("nothing", 512, hard) < (512, hard, size)  # how much smaller hangs on what the system hands to a new process
