"""The engines on virtual time: exact numbers first, then the laws."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.simulator.driver import engine_for
from r1perf.simulator.engine import BatchEngine, Engine, Stream
from r1perf.simulator.profiles import PROFILES, Batched, Timetable
from r1perf.simulator.timetable import TimetableEngine

MS = 1_000_000


def batched(**changes: float) -> Batched:
    """Give a machine with round numbers: a step 10 ms and 1 ms a stream, prefill 5 ms and 1 ms a token, blocks of 4."""
    numbers = {
        "step_ns": 10 * MS, "step_per_stream_ns": MS, "prefill_rate": 1_000, "prefill_ns": 5 * MS, "prefill_chunk": 8,
        "kv_tokens": 400, "max_batch": 16, "block": 4,
    }  # fmt: skip
    return Batched(**{**numbers, **changes})  # type: ignore[arg-type]


def play(engine: Engine, arrivals: list[tuple[int, Stream]], *, steps: int = 10_000) -> dict[str, list[tuple[float, int]]]:
    """Let streams arrive at times in ms and run the engine until it is idle; return what each got: (ms, tokens)."""
    got: dict[str, list[tuple[float, int]]] = {stream.tag: [] for _, stream in arrivals}
    waiting = sorted(arrivals, key=lambda pair: pair[0])
    for _ in range(steps):
        if waiting and (engine.due_ns is None or waiting[0][0] * MS < engine.due_ns):
            at_ms, stream = waiting.pop(0)
            engine.submit(stream, at_ms * MS)
            continue
        if engine.due_ns is None:
            return got
        due_ns = engine.due_ns
        for stream, count in engine.step():
            got[stream.tag].append((due_ns / MS, count))
    raise AssertionError("the engine does not come to an end")


def test_one_stream_prefills_in_chunks_then_decodes() -> None:
    # 20 tokens in chunks of 8, 8, 4: 13 + 13 + 9 ms, and the first token with the last of them; then 11 ms a step.
    got = play(BatchEngine(batched()), [(0, Stream(20, 3, tag="a"))])
    assert got == {"a": [(35, 1), (46, 1), (57, 1)]}


def test_a_prefill_delays_the_decoding_of_others() -> None:
    # b arrives in a's first decode step (13..24) and is prefilled in the next: 11 + 5 + 8 ms.
    got = play(BatchEngine(batched()), [(0, Stream(8, 4, tag="a")), (15, Stream(8, 2, tag="b"))])
    assert got == {"a": [(13, 1), (24, 1), (48, 1), (60, 1)], "b": [(48, 1), (60, 1)]}


def test_a_step_is_longer_the_more_streams_decode() -> None:
    got = play(BatchEngine(batched(prefill_chunk=64)), [(0, Stream(4, 2, tag=name)) for name in "abc"])
    # a alone is in the first prefill (9 ms); b and c in the second step, beside a's decode: 11 + 5 + 8.
    assert got == {"a": [(9, 1), (33, 1)], "b": [(33, 1), (45, 1)], "c": [(33, 1), (45, 1)]}


def test_the_prefill_budget_of_a_step_is_shared_in_order_of_arrival() -> None:
    engine = BatchEngine(batched())
    got = play(engine, [(0, Stream(2, 1, tag="first")), (1, Stream(6, 1, tag="a")), (1, Stream(6, 1, tag="b"))])
    # after 7 ms: 6 of a and 2 of b fill 8 tokens (13 ms); the other 4 of b take 9.
    assert got == {"first": [(7, 1)], "a": [(20, 1)], "b": [(29, 1)]}


def test_steps_follow_each_other_without_drift() -> None:
    engine = BatchEngine(batched())
    engine.submit(Stream(1, 100, tag="a"), 7)
    times = []
    while engine.due_ns is not None:
        times.append(engine.due_ns)
        engine.step()
    assert times == [7 + 6 * MS + step * 11 * MS for step in range(100)]


def test_tokens_per_chunk_gives_several_but_not_more_than_ordered() -> None:
    got = play(BatchEngine(batched(tokens_per_chunk=3)), [(0, Stream(8, 6, tag="a"))])
    assert got == {"a": [(13, 1), (24, 3), (35, 2)]}


def test_the_batch_holds_no_more_than_it_may() -> None:
    engine = BatchEngine(batched(max_batch=2))
    got = play(engine, [(0, Stream(4, 2, tag=name)) for name in "abc"])
    # c waits until a has left at 29 ms; the step that follows prefills it beside b's decode: 11 + 5 + 4.
    assert got == {"a": [(9, 1), (29, 1)], "b": [(29, 1), (49, 1)], "c": [(49, 1), (60, 1)]}


class TestPrefixCache:
    """A prompt whose blocks are known skips their prefill."""

    def test_the_same_prompt_again(self) -> None:
        engine = BatchEngine(batched(prefill_chunk=100))
        first, second = Stream(20, 1, [1, 2, 3, 4, 5], "a"), Stream(20, 1, [1, 2, 3, 4, 5], "b")
        got = play(engine, [(0, first), (100, second)])
        # The last token is always computed, so 4 of its 5 blocks are taken: 4 tokens left instead of 20.
        assert (first.cached, second.cached) == (0, 16)
        assert got == {"a": [(25, 1)], "b": [(109, 1)]}

    def test_a_longer_prompt_with_the_same_start(self) -> None:
        engine = BatchEngine(batched(prefill_chunk=100))
        longer = Stream(26, 1, [1, 2, 9, 8, 7, 6], "b")
        play(engine, [(0, Stream(20, 1, [1, 2, 3, 4, 5], "a")), (100, longer)])
        assert longer.cached == 8

    def test_blocks_are_not_hit_before_they_are_computed(self) -> None:
        engine = BatchEngine(batched(prefill_chunk=100))
        twin = Stream(20, 1, [1, 2, 3, 4, 5], "b")
        play(engine, [(0, Stream(4, 1, tag="0")), (1, Stream(20, 1, [1, 2, 3, 4, 5], "a")), (1, twin)])
        assert twin.cached == 0

    def test_blocks_in_use_are_shared_and_count_once(self) -> None:
        engine = BatchEngine(batched(prefill_chunk=100))
        engine.submit(Stream(20, 50, [1, 2, 3, 4, 5], "a"), 0)
        engine.step()
        assert engine.pool.used == 6
        engine.submit(Stream(21, 50, [1, 2, 3, 4, 5], "b"), 26 * MS)
        engine.step()
        engine.step()
        assert engine.pool.used == 6 + 1

    def test_the_oldest_idle_blocks_make_room(self) -> None:
        engine = BatchEngine(batched(prefill_chunk=100, kv_tokens=32))
        again = Stream(20, 1, [1, 2, 3, 4, 5], "c")
        got = play(engine, [(0, Stream(20, 1, [1, 2, 3, 4, 5], "a")), (100, Stream(20, 1, [6, 7, 8, 9, 10], "b")), (200, again)])
        assert again.cached == 8  # of five blocks, three have gone: the last ones first
        assert got["c"] == [(217, 1)]


class TestRoom:
    """The KV cache is full."""

    def test_a_stream_waits_until_there_is_room(self) -> None:
        engine = BatchEngine(batched(kv_tokens=24, prefill_chunk=100))
        got = play(engine, [(0, Stream(12, 4, tag="a")), (0, Stream(16, 1, tag="b"))])
        # a holds 4 of 6 blocks to its end at 17 + 3 * 11 = 50 ms; b needs 5, and is prefilled in 5 + 16 ms.
        assert got == {"a": [(17, 1), (28, 1), (39, 1), (50, 1)], "b": [(71, 1)]}
        assert engine.preemptions == 0

    def test_the_last_admitted_gives_way_and_is_computed_again(self) -> None:
        engine = BatchEngine(batched(kv_tokens=16, prefill_chunk=100))
        got = play(engine, [(0, Stream(4, 8, tag="a")), (0, Stream(4, 6, tag="b"))])
        # Four blocks, two each. a: 9 ms; b's prefill beside a: 11 + 5 + 4 = 29; both at 41, 53. Then a has 4 tokens and
        # needs a third block for its 5th, so b (3 tokens) goes: 4 + 3 tokens are computed again when a has left.
        assert engine.preemptions == 1
        assert [tokens for _, tokens in got["a"]] == [1] * 8
        assert [tokens for _, tokens in got["b"]] == [1] * 6
        assert [at for at, _ in got["a"]] == [9, 29, 41, 53, 64, 75, 86, 97]
        assert [at for at, _ in got["b"]] == [29, 41, 53, 109, 120, 131]  # 97 + 5 + 7

    def test_a_stream_that_never_fits_is_refused(self) -> None:
        with pytest.raises(ValueError, match="30 \\+ 11 tokens never fit a KV cache of 40"):
            BatchEngine(batched(kv_tokens=40)).submit(Stream(30, 11), 0)


@pytest.mark.parametrize("steps_before", [0, 1, 2, 5], ids=lambda steps: f"after-{steps}-steps")
def test_an_aborted_stream_leaves_nothing_behind(steps_before: int) -> None:
    engine = BatchEngine(batched())
    stream = Stream(20, 9, [1, 2, 3, 4, 5], "a")
    engine.submit(stream, 0)
    for _ in range(steps_before):
        engine.step()
    engine.abort(stream)
    assert (engine.pool.used, engine.running, engine.waiting) == (0, 0, 0)
    assert engine.step() == []
    assert engine.due_ns is None


def test_noise_has_mean_one_and_is_seeded() -> None:
    def times(seed: int) -> list[int]:
        engine = BatchEngine(batched(noise=0.3, kv_tokens=40_000), seed)
        engine.submit(Stream(1, 5_000, tag="a"), 0)
        due = []
        while engine.due_ns is not None:
            due.append(engine.due_ns)
            engine.step()
        return due

    due = times(1)
    gaps = [after - before for before, after in itertools.pairwise(due)]
    mean = sum(gaps) / len(gaps) / (11 * MS)
    assert mean == pytest.approx(1, abs=4 * 0.31 / math.sqrt(len(gaps)))
    assert len(set(gaps)) > 4_900
    assert times(1) == due
    assert times(2) != due


def test_the_timetable_is_kept_whatever_the_load() -> None:
    engine = TimetableEngine(Timetable(ttft_ns=100 * MS, itl_ns=20 * MS))
    arrivals = [(7 * index, Stream(10, 1 + index % 4, tag=str(index))) for index in range(50)]
    got = play(engine, arrivals)
    assert got == {str(i): [(7 * i + 100 + 20 * k, 1) for k in range(1 + i % 4)] for i in range(50)}


def test_the_timetable_forgets_an_aborted_stream() -> None:
    engine = TimetableEngine(Timetable(ttft_ns=100, itl_ns=20))
    gone, stays = Stream(1, 3, tag="gone"), Stream(1, 1, tag="stays")
    engine.submit(gone, 0)
    engine.submit(stays, 5)
    engine.abort(gone)
    assert (engine.running, engine.due_ns) == (1, 105)
    assert engine.step() == [(stays, 1)]
    assert engine.due_ns is None


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_holds_its_longest_request_and_makes_an_engine(name: str) -> None:
    profile = PROFILES[name]
    engine = engine_for(profile.engine)
    assert engine.due_ns is None
    engine.submit(Stream(1, profile.context - 1, tag="longest"), 0)
    if isinstance(profile.engine, Batched):
        assert profile.context <= profile.engine.kv_tokens


@pytest.mark.parametrize("name", PROFILES)
def test_speed_divides_every_time(name: str) -> None:
    def first_times(speed: float) -> list[int]:
        engine = engine_for(PROFILES[name].faster(speed).engine, 3)
        engine.submit(Stream(100, 6, tag="a"), 0)
        due = []
        while engine.due_ns is not None:
            due.append(engine.due_ns)
            engine.step()
        return due

    slow, fast = first_times(1), first_times(10)
    assert fast == pytest.approx([due / 10 for due in slow], rel=1e-3)


@given(
    requests=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 60), st.integers(1, 30), st.integers(0, 3), st.integers(0, 400)),
        min_size=1, max_size=25,
    ),
    kv_blocks=st.integers(25, 60),
    per_chunk=st.integers(1, 3),
    chunk=st.integers(1, 40),
    batch=st.integers(1, 8),
)  # fmt: skip
def test_laws(requests: list[tuple[int, int, int, int, int]], kv_blocks: int, per_chunk: int, chunk: int, batch: int) -> None:
    """Each stream that is left alone gets exactly its tokens; blocks held are those that streams hold, within capacity."""
    profile = batched(kv_tokens=4 * kv_blocks, tokens_per_chunk=per_chunk, prefill_chunk=chunk, max_batch=batch, noise=0.2)
    engine = BatchEngine(profile)
    streams, leaves = [], {}
    for index, (at_ms, prompt, output, family, patience) in enumerate(sorted(requests)):
        stream = Stream(prompt, output, [family * 100 + block for block in range(prompt // 4)], index)
        streams.append((at_ms * MS, stream))
        if patience < 100:  # a client that leaves after so many steps
            leaves[patience] = stream
    got = dict.fromkeys(range(len(streams)), 0)
    aborted: set[int] = set()
    last_ns, steps, queue = 0, 0, list(streams)
    while queue or engine.due_ns is not None:
        if queue and (engine.due_ns is None or queue[0][0] < engine.due_ns):
            at_ns, stream = queue.pop(0)
            engine.submit(stream, max(at_ns, last_ns))
        else:
            assert engine.due_ns is not None
            assert engine.due_ns > last_ns
            last_ns = engine.due_ns
            for stream, count in engine.step():
                assert 1 <= count <= per_chunk
                assert stream.tag not in aborted
                got[stream.tag] += count
            steps += 1
            assert steps < 5_000
        leaver = leaves.pop(steps, None)
        if leaver is not None and 0 < leaver.received_ns <= last_ns and leaver.emitted < leaver.output:
            engine.abort(leaver)
            aborted.add(leaver.tag)
        held = [stream for _, stream in streams if stream.blocks or stream.shared]
        shared = {key for stream in held for key in stream.shared}
        assert engine.pool.used == sum(stream.blocks for stream in held) + len(shared) <= kv_blocks
        assert engine.pool.used + engine.pool.idle <= kv_blocks
        assert engine.running <= batch
    for index, (_, stream) in enumerate(streams):
        assert got[index] == stream.emitted
        assert index in aborted or got[index] == stream.output
        assert stream.cached is None or stream.cached < stream.prompt
    assert engine.pool.used == 0
