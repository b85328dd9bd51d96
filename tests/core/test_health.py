"""The generator's own readings, on virtual time."""

import msgspec

from r1perf import snapshot
from r1perf.health import Health
from r1perf.loop.sim import SimLoop

MS, S = 10**6, 10**9


def stalled(loop, stall_ms, every_ms, until_ms):
    """Let the process be busy, again and again; return the readings of all that time."""
    health = Health(loop, 0)
    start_ns = loop.now_ns()
    for at_ms in range(every_ms, until_ms + 1, every_ms):
        loop.sleep_until(start_ns + at_ms * MS - 1)
        loop.advance(stall_ms * MS)
    loop.sleep_until(start_ns + until_ms * MS + 20 * S)
    reading = health.read()
    health.close()
    return reading, health.read()


def test_all_stalls_of_an_interval_add_up():
    loop = SimLoop()
    reading, next_ = loop.run(stalled, loop, 50, 200, 10_000)
    # Of each of the 50 stalls the part behind the probe's own time is seen, which comes within 20 ms.
    assert 30 * MS < reading.loop_lag_max_ns < 50 * MS
    assert 50 * 30 * MS < reading.stalled_ns < 50 * 50 * MS
    assert (next_.loop_lag_max_ns, next_.stalled_ns) == (0, 0)


def test_small_lags_are_no_stalls():
    loop = SimLoop()
    reading, _ = loop.run(stalled, loop, 9, 200, 10_000)
    assert 0 < reading.loop_lag_max_ns < 10 * MS
    assert reading.stalled_ns == 0


def test_the_health_of_an_early_archive_can_be_read():
    """It does not tell for how long the loop stood still."""
    early = msgspec.msgpack.encode([1, 2, 3, 4, 5, 6, 7])
    assert msgspec.msgpack.decode(early, type=snapshot.Health) == snapshot.Health(1, 2, 3, 4, 5, 6, 7, stalled_ns=None)
