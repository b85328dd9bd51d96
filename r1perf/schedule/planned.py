"""A plan: arrays of times, stages, workloads and items; shards are strides over them."""

import hashlib
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from r1perf.arrivals import Stream
from r1perf.schedule.model import Arrival, Sessions, Stage, live_stage
from r1perf.units import Rate

_CHUNK = 4096
_LIVE_ITEMS = 1 << 40


class Mix:
    """Choose workloads by weight from a stream of their own."""

    def __init__(self, names: tuple[str, ...], weights: tuple[float, ...]) -> None:
        self.names = names
        self._edges = np.cumsum(weights) / sum(weights) if names else np.empty(0)

    def choose(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Draw the next `count` choices, as positions in `names`."""
        return np.minimum(np.searchsorted(self._edges, random.random(count), side="right"), len(self.names) - 1)


class _Choices:
    """The workloads of one group of sessions, by position, drawn as far as they were asked for."""

    def __init__(self, mix: Mix, stream: Stream) -> None:
        self._mix, self._random = mix, stream.generator()
        self._counts = [0] * len(mix.names)
        self._known: list[tuple[int, int]] = []

    def __getitem__(self, position: int) -> tuple[str, int]:
        """Return the workload, and how many positions before this one have the same."""
        while position >= len(self._known):
            for which in self._mix.choose(self._random, _CHUNK).tolist():
                self._known.append((which, self._counts[which]))
                self._counts[which] += 1
        which, rank = self._known[position]
        return self._mix.names[which], rank


class Plan:
    """A schedule that was planned, or a shard of one.

    The last of `stages` is `drain`, a home for what happens after the window; `sessions` are the closed-loop ones of this shard.
    `times_ns`, `stage_of`, `workload_of` (positions in `workloads`) and `items` are this shard's open-loop arrivals. `short` says for
    people that fewer requests come than were to end the run.
    """

    def __init__(
        self,
        *,
        seed: int,
        stages: tuple[Stage, ...],
        sessions: tuple[Sessions, ...],
        workloads: tuple[str, ...],
        mix: Mix,
        times_ns: NDArray[np.int64],
        stage_of: NDArray[np.int64],
        workload_of: NDArray[np.int64],
        items: NDArray[np.int64],
        part: tuple[int, int] = (0, 1),
        whole: tuple[int, str] | None = None,
        short: str | None = None,
    ) -> None:
        self.stages, self.sessions, self.workloads = stages, sessions, workloads
        self.times_ns, self.stage_of, self.workload_of, self.items = times_ns, stage_of, workload_of, items
        self.short = short
        self._seed, self._mix, self._first, self._step = seed, mix, *part
        self._total, self._digest = whole if whole is not None else (len(times_ns), self._hash())
        self._choices: dict[int, _Choices] = {}

    def __len__(self) -> int:
        """Count the open-loop arrivals of this shard."""
        return len(self.times_ns)

    def __iter__(self) -> Iterator[Arrival]:
        """Go through the open-loop arrivals in order of time."""
        for at in range(0, len(self), _CHUNK):
            part = slice(at, at + _CHUNK)
            rows = zip(*(a[part].tolist() for a in (self.times_ns, self.stage_of, self.workload_of, self.items)), strict=True)
            for k, (offset_ns, stage, which, item) in enumerate(rows, at):
                yield Arrival(self._first + k * self._step, offset_ns, stage, self.workloads[which], item)

    def conversation(self, sessions: Sessions, session: int, n: int) -> Arrival | None:
        """Return the n-th conversation of one closed session (offset_ns 0), or None when its share is used up."""
        position = session + n * sessions.count
        if sessions.conversations is not None and position >= sessions.conversations:
            return None
        if sessions.workload is not None:
            workload, rank = sessions.workload, position
        else:
            if sessions.base not in self._choices:
                stream = Stream(self._seed, "workloads", self.stages[sessions.stage].name, str(sessions.base))
                self._choices[sessions.base] = _Choices(self._mix, stream)
            workload, rank = self._choices[sessions.base][position]
        return Arrival(sessions.base + position, 0, sessions.stage, workload, sessions.base + rank)

    def shard(self, i: int, n: int) -> "Plan":
        """Return worker i's part of n: every n-th arrival from the i-th, and every n-th session of each group.

        The n parts are disjoint and together the whole.
        """
        if not 0 <= i < n:
            raise ValueError(f"shard {i} of {n} does not exist")
        sessions = tuple(msgspec.structs.replace(s, first=s.first + i * s.step, step=s.step * n) for s in self.sessions)
        return Plan(
            seed=self._seed,
            stages=self.stages,
            sessions=tuple(s for s in sessions if s.first < s.count),
            workloads=self.workloads,
            mix=self._mix,
            times_ns=self.times_ns[i::n],
            stage_of=self.stage_of[i::n],
            workload_of=self.workload_of[i::n],
            items=self.items[i::n],
            part=(self._first + i * self._step, self._step * n),
            whole=(self._total, self._digest),
            short=self.short,
        )

    def digest(self) -> str:
        """Return a short hash of the whole schedule: equal for every shard of one plan."""
        return self._digest

    def live(self, number: int, rate: float, start_ns: int) -> tuple[Stage, Iterator[Arrival]]:
        """Plan a stage `live-<number>` without an end: Poisson arrivals of this shard from `start_ns` on, for the web UI.

        It depends on the seed, the number, the rate and the weights alone; its items and arrival indexes are its own. Raises
        ValueError for a rate that no `Rate` runs at, 0 among them.
        """
        if not Rate(rate).runs:
            raise ValueError(f"arrivals cannot come at {rate:g}/s")
        stage = live_stage(self.stages, number, rate, start_ns)
        return stage, self._live(number, stage.name, rate, start_ns, stage.index)

    def _live(self, number: int, name: str, rate: float, start_ns: int, index: int) -> Iterator[Arrival]:
        gaps, choices = (Stream(self._seed, dimension, name).generator() for dimension in ("times", "workloads"))
        base, counts, at, k = number * _LIVE_ITEMS, [0] * len(self._mix.names), 0.0, 0
        while True:
            times = at + np.cumsum(gaps.standard_exponential(_CHUNK)) / rate
            at = float(times[-1])
            whiches = self._mix.choose(choices, _CHUNK).tolist()
            for offset_ns, which in zip((times * 1e9).astype(np.int64).tolist(), whiches, strict=True):
                if k % self._step == self._first:
                    yield Arrival(base + k, start_ns + offset_ns, index, self._mix.names[which], base + counts[which])
                counts[which] += 1
                k += 1

    def _hash(self) -> str:
        whole = hashlib.sha256(msgspec.json.encode([self._seed, self.stages, self.sessions, self.workloads, self._mix.names]))
        for array in (self.times_ns, self.stage_of, self.workload_of, self.items):
            whole.update(array.astype("<i8").tobytes())
        return whole.hexdigest()[:16]
