"""Traces: formats by header, real times, windows, speed and rate, and prefixes that are really shared."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets.tokens import Calibration, Vocabulary
from r1perf.datasets.trace import Replayed, TraceLengths
from r1perf.errors import DatasetError
from r1perf.replay import replay
from r1perf.traces import Trace, read_trace
from r1perf.units import Duration, Rate

S = 10**9

MOONCAKE = """\
{"timestamp": 27482, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 30535, "input_length": 520, "output_length": 6, "hash_ids": [0, 9]}
"""
BAILIAN = """\
{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 35, "output_length": 5, "type": "text", "turn": 1, "hash_ids": [7, 8, 9]}
{"chat_id": 160, "parent_chat_id": 159, "timestamp": 61.5, "input_length": 20, "output_length": 6, "type": "text", "turn": 2, "hash_ids": [7, 3]}
"""
AZURE_2023 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
2024-05-10 01:00:01+00:00,100,0
"""
BURST_1 = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
"""
BURST_3 = """\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
2.5,a1,3.1,GPT-4,10,20,30,API log
1.25,b2,0.4,ChatGPT,11,21,32,API log
"""  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "kind", "times_ns", "inputs", "outputs", "left_out"),
    [
        pytest.param("m.jsonl", MOONCAKE, "mooncake", [0, 3_053_000_000], [1030, 520], [5, 6], 0, id="mooncake"),
        pytest.param("q.jsonl", BAILIAN, "qwen-bailian", [0, 386_000_000], [35, 20], [5, 6], 0, id="qwen-bailian"),
        pytest.param("a.csv", AZURE_2023, "azure", [0, 4_314_579_000], [374, 396], [44, 109], 0, id="azure 2023"),
        pytest.param("a.csv", AZURE_2024, "azure", [0, 7_405_000], [2162, 2399], [5, 6], 1, id="azure 2024"),
        pytest.param("b.csv", BURST_1, "burstgpt", [0, 40 * S], [472, 1087], [18, 230], 1, id="burstgpt 1"),
        pytest.param("b.csv", BURST_3, "burstgpt", [0, 1_250_000_000], [11, 10], [21, 20], 0, id="burstgpt 3, sorted"),
    ],
)
def test_formats_are_known_by_their_header(tmp_path, name, content, kind, times_ns, inputs, outputs, left_out):
    (tmp_path / name).write_text(content)
    trace = read_trace(tmp_path / name)
    assert trace.format == kind
    assert trace.offsets_ns.tolist() == times_ns
    assert trace.input_tokens.tolist() == inputs
    assert trace.output_tokens.tolist() == outputs
    assert trace.left_out == left_out


def test_blocks_go_with_their_request_when_times_are_sorted(tmp_path):
    lines = MOONCAKE.splitlines()
    (tmp_path / "m.jsonl").write_text("\n".join(reversed(lines)))
    trace = read_trace(tmp_path / "m.jsonl")
    assert [trace.block_ids(k) for k in range(2)] == [[0, 1, 2], [0, 9]]
    assert trace.block_tokens == 512
    (tmp_path / "q.jsonl").write_text(BAILIAN)
    assert read_trace(tmp_path / "q.jsonl").block_tokens == 16


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01 00:00:00", 0),
        ("1970-01-01 00:00:01.0000001", S + 100),
        ("1970-01-01 01:00:00.5+01:00", S // 2),
        ("1970-01-02 00:00:00.123456789", 86400 * S + 123_456_789),
    ],
)
def test_dates_keep_every_digit(tmp_path, text, ns):
    (tmp_path / "a.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00,1,1\n{text},1,1\n")
    assert int(read_trace(tmp_path / "a.csv").offsets_ns[1]) == ns


def mooncake_line(timestamp, inputs, outputs, block=1):
    line = f'{{"timestamp": {timestamp}, "input_length": {inputs}, "output_length": {outputs}, "hash_ids": [{block}]}}'
    return f"{MOONCAKE}{line}\n"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        pytest.param("no.csv", None, "no.csv: no such file", id="missing"),
        pytest.param("a.csv", "a,b\n1,2\n", "a.csv line 1: not the header of a known trace; allowed: a Mooncake", id="header"),
        pytest.param("a.csv", "", "a.csv line 1: not the header of a known trace", id="empty"),
        pytest.param("a.csv", AZURE_2023 + "soon,1,1\n", "a.csv line 4: 'soon,1,1' is no row of a trace", id="time"),
        pytest.param("a.csv", AZURE_2023 + "2023-11-16 18:15:50\n", "a.csv line 4: '2023-11-16 18:15:50' is no row", id="cells"),
        pytest.param("a.csv", AZURE_2023.splitlines()[0], "a.csv: has no request with input and output", id="rows"),
        pytest.param("m.jsonl", MOONCAKE + "{}\n", "m.jsonl line 3: Object missing required field `timestamp`", id="field"),
        pytest.param("m.jsonl", MOONCAKE + "{", "m.jsonl line 3: Input data was truncated", id="json"),
        pytest.param("m.jsonl", mooncake_line("1e30", 5, 5), "m.jsonl line 3: `timestamp` is no time within 146 years", id="far"),
        pytest.param("m.jsonl", mooncake_line(1, -5, 5), "m.jsonl line 3: Expected `int` >= 0 - at `$.input_length`", id="negative"),
        pytest.param("m.jsonl", mooncake_line(1, 5, 2**25), "m.jsonl line 3: Expected `int` <= 16777216 - at", id="too long"),
        pytest.param("m.jsonl", mooncake_line(1, "9" * 5000, 5), "m.jsonl line 3: ", id="5,000 digits"),
        pytest.param("m.jsonl", mooncake_line(1, 5, 5, 2**63), "m.jsonl line 3: Expected `int` <= 9223372036854775807", id="hash"),
        pytest.param("m.jsonl", MOONCAKE + '{"more": ' + "[" * 9000, "m.jsonl line 3: is nested too deeply", id="deep"),
        pytest.param("b.csv", BURST_1 + "inf,x,1,1,2,x\n", "b.csv line 5: 'inf,x,1,1,2,x' is no row of a trace (is no time", id="inf"),
        pytest.param("b.csv", BURST_1 + "nan,x,1,1,2,x\n", "b.csv line 5: ", id="nan"),
        pytest.param("b.csv", BURST_1 + "x,x,1,1,2,x\n", "(its time must be a number of seconds)", id="no number"),
        pytest.param("a.csv", AZURE_2023 + f"2023-11-16 18:15:50,{'9' * 23},1\n", "(a length must be a whole number of tokens from 0 "
                     "to 16,777,216)", id="23 digits"),
        pytest.param("a.csv", AZURE_2023 + "2023-11-16 18:15:50,-4,1\n", "a.csv line 4: '2023-11-16 18:15:50,-4,1' is no row", id="minus"),
        pytest.param("a.csv", AZURE_2023 + "2023-11-16 18:15:50,9999999999,1\n", "a.csv line 4: ", id="ten digits"),
        pytest.param("a.csv", AZURE_2023 + "0001-01-01 00:00:00+14:00,1,1\n", "(its time must be a date such as 2023-", id="before all"),
        pytest.param("a.csv", AZURE_2023 + "9999-01-01 00:00:00,1,1\n", "(is no time within 146 years)", id="after all"),
        pytest.param("a.csv", AZURE_2023 + "\0" * 9 + '"' + "x" * 200_000, "a.csv", id="no csv"),
        pytest.param("a.csv", AZURE_2023.encode() + b"caf\xe9,1,1\n", "a.csv line 4: is not UTF-8 text (byte 0xe9)", id="latin-1"),
        pytest.param("a.csv", AZURE_2023.encode("utf-16"), "a.csv: is UTF-16 text; allowed: UTF-8", id="utf-16"),
        pytest.param("a.csv", gzip.compress(AZURE_2023.encode()), "a.csv: is compressed (gzip); unpack it first", id="gzip"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DatasetError) as error:
        TraceLengths(file=name).load(1, tmp_path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


# --- What is replayed, and when ---


def trace_of(offsets_ns):
    count = len(offsets_ns)
    ones = np.ones(count, dtype=np.int64)
    return Trace("mooncake", np.array(offsets_ns, dtype=np.int64), ones, ones, None, 512, 0, "digest")


TEN = trace_of([k * S for k in range(10)])


@pytest.mark.parametrize(
    ("options", "rows", "offsets_ns"),
    [
        pytest.param({}, list(range(10)), [k * S for k in range(10)], id="all"),
        pytest.param({"start_ns": 3 * S, "length_ns": 2 * S}, [3, 4], [0, S], id="window, its end outside"),
        pytest.param({"start_ns": int(2.5 * S), "length_ns": S}, [3], [S // 2], id="window between requests"),
        pytest.param({"speed": 4.0, "length_ns": 3 * S}, [0, 1, 2], [0, S // 4, S // 2], id="speed"),
        pytest.param({"speed": 1e300}, list(range(10)), [0] * 10, id="all at once"),
        pytest.param({"speed": 50.0}, list(range(10)), [n * S // 50 for n in range(10)], id="all of it, faster"),
        pytest.param({"start_ns": 8 * S, "length_ns": 100 * S}, [8, 9], [0, S], id="window over the end"),
    ],
)
def test_windows_and_speed(options, rows, offsets_ns):
    chosen = replay(TEN, **options)
    assert chosen.rows.tolist() == rows
    assert chosen.offsets_ns.tolist() == offsets_ns
    assert chosen.length_ns > chosen.offsets_ns[-1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"start_ns": 20 * S}, "the trace has no request after 20 s; its last one comes at 9 s"),
        ({"start_ns": S + 1, "length_ns": 5}, "the trace has no request from 1 s to 1 s; its last one comes at 9 s"),
        ({"speed": 1e-9}, "the replay would last longer than 146 years"),
        ({"length_ns": 2**70}, "the replay would last longer than 146 years"),
        ({"rate": 1e9}, "at 1e+09 requests/s the replay would have 9,000,000,001 requests; allowed: 50,000,000"),
        ({"rate": 0.01}, "at 0.01 requests/s the trace's window of 9 s holds no request"),
    ],
)
def test_nothing_left_is_told(options, says):
    with pytest.raises(DatasetError) as error:
        replay(TEN, **options)
    assert says in str(error.value)


@pytest.fixture(scope="module")
def bursts():
    """Make 100 s at 2/s with a burst of 100/s from 40 s to 45 s."""
    random = np.random.default_rng(1)
    return trace_of(np.sort(np.concatenate([random.uniform(0, 100, 200), random.uniform(40, 45, 500)]) * S).astype(np.int64))


@pytest.mark.parametrize("rate", [0.7, 3.5, 7.0, 10.0, 21.0, 24.5])
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_rate_changes_how_many_come_and_not_when_bursts_are(bursts, rate, speed):
    chosen = replay(bursts, length_ns=100 * S, rate=rate, speed=speed)
    assert len(chosen.rows) == round(rate * 100 / speed)
    assert (np.diff(chosen.offsets_ns) >= 0).all()
    assert chosen.offsets_ns[-1] < chosen.length_ns == 100 * S / speed
    in_burst = ((chosen.offsets_ns >= 40 * S / speed) & (chosen.offsets_ns < 45 * S / speed)).mean()
    own = ((bursts.offsets_ns >= 40 * S) & (bursts.offsets_ns < 45 * S)).mean()
    assert in_burst == pytest.approx(own, abs=0.1 if rate < 1 else 0.05)


def test_each_request_is_kept_once_or_repeated_evenly(bursts):
    counts = np.bincount(replay(bursts, length_ns=100 * S, rate=3.5).rows, minlength=700)
    assert set(counts) == {0, 1}
    counts = np.bincount(replay(bursts, length_ns=100 * S, rate=17.5).rows, minlength=700)
    assert set(counts) == {2, 3}


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.floats(0.1, 10), st.integers(1, 200))
def test_replays_are_ordered_and_inside(times, speed, wanted):
    trace = trace_of(sorted(time - min(times) for time in times))
    span_ns = int(trace.offsets_ns[-1]) + 1
    chosen = replay(trace, speed=speed, rate=wanted / (span_ns / speed / 1e9))
    assert len(chosen.rows) == wanted
    assert chosen.offsets_ns[0] >= 0
    assert (np.diff(chosen.offsets_ns) >= 0).all()
    assert chosen.offsets_ns[-1] <= chosen.length_ns + 1


# --- Prompts ---


@pytest.fixture
def mooncake(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 10, "input_length": 1024, "output_length": 6, "hash_ids": [0, 1]},
        {"timestamp": 20, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]},
        {"timestamp": 30, "input_length": 600, "output_length": 8, "hash_ids": [4]},
        {"timestamp": 40, "input_length": 3, "output_length": 9, "hash_ids": [5]},
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return tmp_path


def words(items, item):
    return items.conversation(item).turns[0].text.split()


def test_lengths_are_those_of_the_trace_and_equal_blocks_are_equal_text(mooncake):
    items = TraceLengths(file="m.jsonl").load(1, mooncake, "run")
    prompts = [words(items, item) for item in range(5)]
    assert [len(prompt) for prompt in prompts] == [1030, 1024, 600, 600, 3]
    assert [items.conversation(item).turns[0].output_tokens for item in range(5)] == [5, 6, 7, 8, 9]
    assert prompts[0][:1024] == prompts[1]
    assert prompts[0][:512] == prompts[2][:512]
    assert prompts[0][512:600] != prompts[2][512:600]
    assert prompts[0][:16] != prompts[3][:16]
    assert items.size == 5


def alike(one, other):
    """Return how many words two prompts begin with in common."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_a_trace_that_begins_again_shares_within_a_pass_and_not_with_the_one_before(mooncake):
    items = TraceLengths(file="m.jsonl").load(1, mooncake, "run")
    first, second = ([words(items, item) for item in range(start, start + 5)] for start in (0, 5))
    assert [len(prompt) for prompt in second] == [len(prompt) for prompt in first]
    assert [alike(second[0], prompt) >= 512 for prompt in second] == [True, True, True, False, False]
    assert max(alike(one, other) for one in first for other in second) < 8  # words are alike by chance only


def test_copies_of_a_rate_above_the_traces_own_share_as_the_trace_did(mooncake):
    """Eight copies of four requests in 40 ms: each copy meets its own like, and never another copy."""
    spec = TraceLengths(file="m.jsonl", length=Duration.parse("40ms"), rate=Rate(800.0))
    items = spec.load(1, mooncake, "run")
    chosen = replay(read_trace(mooncake / "m.jsonl"), length_ns=40_000_000, rate=800.0)
    prompts = [words(items, item) for item in range(32)]
    assert np.bincount(chosen.rows).tolist() == [8, 8, 8, 8]
    assert sorted(chosen.copies[chosen.rows == 2].tolist()) == list(range(8))
    pairs = [(a, b) for a in range(32) for b in range(a) if {chosen.rows[a], chosen.rows[b]} <= {0, 1, 2}]
    assert [alike(prompts[a], prompts[b]) >= 512 for a, b in pairs] == [chosen.copies[a] == chosen.copies[b] for a, b in pairs]


def test_no_row_is_a_copy_where_none_comes_twice():
    assert [replay(TEN, length_ns=10 * S, rate=rate).copies is None for rate in (0.5, 1.0, 1.1)] == [True, True, False]
    assert replay(TEN).copies is None


@pytest.mark.parametrize("tokens_per_word", [1.0, 1.3, 0.77])
@pytest.mark.parametrize("scale", [0.125, 0.1])
def test_blocks_end_where_the_traces_did_by_the_servers_own_count(tmp_path, scale, tokens_per_word):
    """And half a cache block later, so that a count that falls a little short loses none; no rounding adds up over the blocks."""
    shared, calibration = 40, Calibration(tokens_per_word, 20)
    rows = [{"timestamp": n, "input_length": 512 * 50, "output_length": 1, "hash_ids": [*range(shared), *range(100 * n, 100 * n + 10)]}
            for n in (1, 2)]  # fmt: skip
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    items = TraceLengths(file="m.jsonl", scale=scale).load(1, tmp_path).calibrated(calibration)
    common = calibration.tokens(alike(words(items, 0), words(items, 1)))
    assert 7 <= common - shared * 512 * scale <= 11


def test_with_a_tokenizer_blocks_end_where_the_traces_did(mooncake):
    spec = TraceLengths(file="m.jsonl", tokenizer="unread")
    trace = read_trace(mooncake / "m.jsonl")
    items = Replayed(spec, 1, "", trace, replay(trace), Vocabulary())
    assert alike(words(items, 0), words(items, 2)) == 512


def test_what_the_blocks_do_not_cover_is_the_request_s_own(mooncake):
    items = TraceLengths(file="m.jsonl").load(1, mooncake)
    assert len(words(items, 3)) == 600  # one block of 512 and 88 words more


def test_texts_are_new_in_every_run_unless_natural(mooncake):
    bust, natural = TraceLengths(file="m.jsonl"), TraceLengths(file="m.jsonl", cache="natural")
    assert words(bust.load(1, mooncake, "a"), 0)[:8] != words(bust.load(1, mooncake, "b"), 0)[:8]
    assert words(natural.load(1, mooncake, "a"), 0) == words(natural.load(1, mooncake, "b"), 0)


def test_lengths_that_scale_makes_too_long_are_refused(mooncake):
    with pytest.raises(DatasetError, match=r"m.jsonl: with `scale` 100000 it has lengths over 16,777,216 tokens"):
        TraceLengths(file="m.jsonl", scale=1e5).load(1, mooncake)


def test_scale_shortens_inputs_blocks_and_outputs_alike(mooncake):
    items = TraceLengths(file="m.jsonl", scale=0.125).load(1, mooncake)
    prompts = [words(items, item) for item in range(5)]
    assert [len(prompt) for prompt in prompts] == [129, 128, 75, 75, 1]
    assert prompts[0][:64] == prompts[2][:64]
    assert prompts[0][64:75] != prompts[2][64:75]
    assert prompts[0][:128] == prompts[1]
    assert items.conversation(0).turns[0].output_tokens == 1
    assert items.expected.input_tokens == (129 + 128 + 75 + 75 + 1) / 5


def test_template_tokens_belong_to_the_first_block(mooncake):
    items = TraceLengths(file="m.jsonl", template_tokens=12).load(1, mooncake)
    first, second = words(items, 0), words(items, 2)
    assert (len(first), len(second)) == (1018, 588)
    shared = next(k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert shared in (508, 509, 510)  # 520 with the template; words after it are alike by chance only


def test_items_and_offsets_belong_together(mooncake):
    spec = TraceLengths(file="m.jsonl", start=Duration.parse("10ms"), length=Duration.parse("25ms"), speed=0.5)
    items = spec.load(1, mooncake)
    assert items.offsets_ns.tolist() == [0, 20_000_000, 40_000_000]
    assert spec.offsets_ns(mooncake).tolist() == items.offsets_ns.tolist()
    assert [items.conversation(item).turns[0].output_tokens for item in range(3)] == [6, 7, 8]


def test_calibrated_requests_keep_their_shared_blocks(mooncake):
    items = TraceLengths(file="m.jsonl").load(1, mooncake).calibrated(Calibration(2.0, 0))
    assert [len(words(items, item)) for item in range(3)] == [515, 512, 300]
    assert words(items, 0)[:256] == words(items, 2)[:256]


# --- The real files ---


def real(shared, name) -> Path:
    path = shared / "data" / name
    if not path.exists():
        pytest.skip(f"needs {name}")
    return path


def test_the_real_azure_trace(shared):
    path = real(shared, "azure_llm_2023_conv.csv")
    trace = read_trace(path)
    assert (trace.format, len(trace.offsets_ns), trace.left_out) == ("azure", 3999, 0)
    assert trace.offsets_ns[1] == 4_314_579_000
    assert not (trace.offsets_ns % 100).any()  # seven digits of a second, none lost
    assert (trace.offsets_ns % 10_000_000).any()
    items = TraceLengths(file=path.name, length=Duration.parse("5m"), rate=Rate(2.0)).load(1, path.parent)
    assert items.size == 600
    lengths = {(len(words(items, k)), items.conversation(k).turns[0].output_tokens) for k in range(50)}
    assert lengths <= set(zip(trace.input_tokens.tolist(), trace.output_tokens.tolist(), strict=True))


def test_the_real_mooncake_trace_shares_what_it_shared(shared):
    path = real(shared, "mooncake_conversation.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    items = TraceLengths(file=path.name, scale=1 / 16).load(1, path.parent)
    trace = read_trace(path)
    assert trace.input_tokens.tolist() == [row["input_length"] for row in rows]
    # A cache that keeps everything: whole blocks in front that came before.
    seen_ids, seen_text, ids_hit, text_hit = set(), set(), 0, 0
    for item, row in enumerate(rows[:400]):
        text, whole = words(items, item), row["input_length"] // 512
        for k in range(whole):
            key = tuple(row["hash_ids"][: k + 1])
            ids_hit += key in seen_ids
            seen_ids.add(key)
            key = " ".join(text[: 32 * (k + 1)])
            text_hit += key in seen_text
            seen_text.add(key)
    assert text_hit == ids_hit > 500


def test_arrivals_and_lengths_of_one_replay_belong_together(mooncake):
    from r1perf.arrivals import Stream
    from r1perf.arrivals.trace import Trace as TraceArrivals

    choice = {"start": Duration.parse("5ms"), "speed": 2.0, "rate": Rate(300.0)}
    arrivals = TraceArrivals(file="m.jsonl", **choice).located(mooncake)
    items = TraceLengths(file="m.jsonl", **choice).load(1, mooncake)
    times = arrivals.times(Stream(9, "times"), until=1.0, count=None, turns=1.0)
    assert np.rint(times * 1e9).astype(np.int64).tolist() == items.offsets_ns.tolist()
    assert arrivals.duration == pytest.approx(17_500_000, abs=1)
    assert arrivals.rates()[0] == pytest.approx(len(times) / 0.0175, rel=1e-6)
    assert len(arrivals.times(Stream(9, "times"), until=1.0, count=2, turns=1.0)) == 2
    assert arrivals.says() == "trace m.jsonl, from 5ms, at 2 times the speed, scaled to 300/s"
    assert arrivals.at_rate(Rate(3.0)).rates() == (Rate(3.0), Rate(3.0))
