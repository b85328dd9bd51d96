"""Emit each stream on a timetable of its own: the truth that a client can be held against."""

import heapq

from r1perf.simulator.engine import Emission, Stream
from r1perf.simulator.profiles import Timetable


class TimetableEngine:
    """Give each stream its own timetable: chunk k is due at received + ttft_ns + k * itl_ns, whatever the load."""

    def __init__(self, profile: Timetable) -> None:
        self.profile = profile
        self.steps = 0
        self.preemptions = 0
        self._heap: list[tuple[int, int, Stream]] = []
        self._serial = 0
        self._gone: set[Stream] = set()

    @property
    def due_ns(self) -> int | None:
        """Say when the next chunk is due."""
        while self._heap and self._heap[0][2] in self._gone:
            self._gone.discard(heapq.heappop(self._heap)[2])
        return self._heap[0][0] if self._heap else None

    @property
    def running(self) -> int:
        """Count the streams in the batch."""
        return len(self._heap) - len(self._gone)

    @property
    def waiting(self) -> int:
        """Return 0: nothing queues here."""
        return 0

    @property
    def kv_usage(self) -> float:
        """Return 0: there is no KV cache here."""
        return 0.0

    def submit(self, stream: Stream, now_ns: int) -> None:
        """Put a stream on the timetable."""
        stream.received_ns = now_ns
        stream.cached = 0
        self._serial += 1
        heapq.heappush(self._heap, (now_ns + self.profile.ttft_ns, self._serial, stream))

    def abort(self, stream: Stream) -> None:
        """Forget a stream."""
        self._gone.add(stream)

    def step(self) -> list[Emission]:
        """Emit the one chunk that is due first."""
        due = self.due_ns
        assert due is not None, "there is no step to end"
        _, serial, stream = self._heap[0]
        self.steps += 1
        count = min(self.profile.tokens_per_chunk, stream.output - stream.emitted)
        stream.emitted += count
        if stream.emitted >= stream.output:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (due + self.profile.itl_ns, serial, stream))
        return [(stream, count)]
