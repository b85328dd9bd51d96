"""A whole run between relay and parts on virtual time, whatever happens to their messages and to the workers."""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from chaos import Chaos, Faults, messages_of
from fake_traffic import MS, S
from hypothesis import given, settings
from hypothesis import strategies as st

from r1perf import messages
from r1perf.arrivals import Closed
from r1perf.errors import UsageError
from r1perf.journal import read_requests
from r1perf.swarm import wire
from r1perf.swarm.sessions import Held, Sessions


def counts(chaos):
    return chaos.verdict.document.counts


def complete(chaos):
    """Every arrival was sent once, and is in the master's counts once."""
    planned = [f"{arrival.index}.0" for arrival in chaos.plan]
    assert chaos.sent == planned
    assert counts(chaos) == {"scheduled": len(planned), "ok": len(planned), "in_flight": 0}
    assert chaos.verdict.sentence is None


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_a_run_is_carried_out_and_over_for_all(tmp_path, workers):
    chaos = Chaos(tmp_path, workers)
    complete(chaos)
    assert {client_id for client_id, _ in messages_of(chaos, wire.Over)} == set(chaos.parts)
    assert all(part.over and part.channel.settled for part in chaos.parts.values())
    assert len({message.t0_wall_ns for _, message in messages_of(chaos, messages.Go)}) == 1


@settings(max_examples=25)
@given(
    faults=st.builds(
        Faults, seed=st.integers(0, 2**32), lost=st.floats(0, 0.4), twice=st.floats(0, 0.5), delay_ms=st.integers(0, 4000)
    ),
    workers=st.integers(1, 4),
    service_ms=st.integers(0, 2500),
)
def test_lost_repeated_and_reordered_messages_change_nothing(faults, workers, service_ms):
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), workers, faults, seconds=2.0, service_ms=service_ms)
        complete_but_late(chaos)


def complete_but_late(chaos):
    """As complete; where the Go itself came late, arrivals went out late, and the run says so."""
    planned = [f"{arrival.index}.0" for arrival in chaos.plan]
    assert chaos.sent == planned
    assert counts(chaos) == {"scheduled": len(planned), "ok": len(planned), "in_flight": 0}
    assert all("late" in reason for reason in chaos.verdict.document.validity.reasons)


def test_a_killed_worker_is_lost_and_what_it_had_finished_is_counted(tmp_path):
    def kill(chaos):
        chaos.sleep(2500)
        chaos.cut.add("c1")
        chaos.gone.add("c1")

    chaos = Chaos(tmp_path, 2, seconds=6.0, service_ms=3000, meanwhile=kill)
    assert chaos.verdict.code == 3
    assert chaos.verdict.sentence == "worker 1 was lost: its process has ended"
    assert chaos.dropped == ["c1"]
    lines = {worker: list(read_requests(tmp_path / f"run/requests.{worker}.jsonl")) for worker in "01"}
    assert {line.arrival % 2 for line in lines["0"]} == {0}
    assert counts(chaos)["lost"] >= 1
    assert counts(chaos)["scheduled"] == counts(chaos)["ok"] + counts(chaos)["lost"]


def test_a_worker_that_says_nothing_is_given_up_before_locust_begins_its_users_elsewhere(tmp_path):
    def part(chaos):
        chaos.sleep(2000)
        chaos.cut.add("c0")
        chaos.since_ns = chaos.loop.now_ns()
        while not chaos.dropped:
            chaos.loop.sleep_until(chaos.loop.now_ns() + 100 * MS)
        chaos.after_ns = chaos.loop.now_ns() - chaos.since_ns
        chaos.cut.remove("c0")  # it comes back

    chaos = Chaos(tmp_path, 2, seconds=60.0, meanwhile=part)
    assert chaos.verdict.sentence == "worker 0 was lost: it has said nothing for 45 s"
    assert 43 * S < chaos.after_ns < 60 * S
    assert chaos.parts["c0"].over, "who comes back is told that it is over"
    assert ("c0", wire.Over()) in messages_of(chaos, wire.Over)
    assert counts(chaos)["scheduled"] == counts(chaos)["ok"] + counts(chaos).get("lost", 0)
    assert len(chaos.sent) == len(set(chaos.sent))


def test_a_worker_that_leaves_is_lost_unless_its_last_words_are_still_on_their_way(tmp_path):
    def leave(chaos):
        chaos.sleep(1500)
        chaos.absent.add("c1")
        chaos.loop.sleep_until(chaos.loop.now_ns() + 2 * S)
        chaos.absent.remove("c1")
        chaos.pause(1000)
        chaos.absent.add("c1")
        chaos.cut.add("c1")

    chaos = Chaos(tmp_path, 2, seconds=20.0, meanwhile=leave)
    assert chaos.verdict.sentence == "worker 1 was lost: it has left the swarm"


def test_a_worker_that_comes_back_in_time_is_not_lost(tmp_path):
    def flicker(chaos):
        for ms in (1000, 5000, 9000):
            chaos.sleep(ms)
            chaos.absent.add("c1")
            chaos.sleep(ms + 2500)
            chaos.absent.remove("c1")

    complete(Chaos(tmp_path, 2, seconds=13.0, meanwhile=flicker))


def test_a_worker_is_not_silent_while_its_files_come(tmp_path, monkeypatch):
    monkeypatch.setattr("r1perf.swarm.part.PIECE_BYTES", 100)
    chaos = Chaos(tmp_path, 1, Faults(seed=1, delay_ms=2500), seconds=2.0, away=("0",))
    complete_but_late(chaos)
    assert len(messages_of(chaos, wire.Piece)) > 60, "it took longer than a silence"
    assert chaos.verdict.document.environment["workers"]["0"]["collected"] is True


def test_a_master_that_was_stopped_first_hears_what_has_come(tmp_path):
    def stop(chaos):
        chaos.sleep(2000)
        chaos.loop.advance(60 * S)  # nothing runs meanwhile

    chaos = Chaos(tmp_path, 2, seconds=4.0, meanwhile=stop)
    assert not chaos.dropped
    assert counts(chaos)["ok"] == counts(chaos)["scheduled"] == len(list(chaos.plan))


def test_an_interrupt_drains_and_a_second_one_cuts(tmp_path):
    def interrupt(chaos):
        chaos.sleep(1000)
        chaos.relay.interrupt()
        chaos.sleep(2000)
        chaos.relay.interrupt()

    chaos = Chaos(tmp_path, 2, seconds=30.0, service_ms=60_000, meanwhile=interrupt)
    assert chaos.verdict.code == 130
    assert set(counts(chaos)) == {"scheduled", "cancelled", "in_flight"}
    assert all(part.halted for part in chaos.parts.values())
    assert counts(chaos)["scheduled"] == counts(chaos)["cancelled"] == len(chaos.sent)


def test_a_stop_that_was_asked_for_is_no_fault(tmp_path):
    def stop(chaos):
        chaos.sleep(1000)
        chaos.relay.stop("people said so")
        chaos.relay.stop("twice")

    chaos = Chaos(tmp_path, 2, seconds=30.0, meanwhile=stop)
    assert (chaos.verdict.code, chaos.verdict.sentence) == (0, "people said so")
    assert counts(chaos)["ok"] == counts(chaos)["scheduled"] == len(chaos.sent)


def test_a_stop_before_the_run_begins_ends_it_without_an_archive(tmp_path):
    chaos = Chaos(tmp_path, 2, Faults(delay_ms=900, seed=1), meanwhile=lambda chaos: chaos.relay.stop("too early"))
    assert (chaos.verdict.code, chaos.verdict.document) == (130, None)
    assert not chaos.sent
    assert all(part.over for part in chaos.parts.values())


def test_the_files_of_a_worker_elsewhere_are_fetched_and_where_they_were_is_in_the_document(tmp_path):
    chaos = Chaos(tmp_path, 2, Faults(seed=3, lost=0.3, twice=0.3, delay_ms=300), away=("1",))
    complete_but_late(chaos)
    theirs = tmp_path / "elsewhere-1" / "run"
    for name in ("requests.1.jsonl", "snapshots.1"):
        assert (tmp_path / "run" / name).read_bytes() == (theirs / name).read_bytes()
    facts = chaos.verdict.document.environment["workers"]
    assert (facts["1"]["folder"], facts["1"]["collected"]) == (str(theirs), True)
    assert not {"folder", "collected"} & facts["0"].keys()
    assert not list((tmp_path / "run").glob(".*"))


def test_files_stay_where_they_are_where_they_are_not_to_be_collected(tmp_path):
    chaos = Chaos(tmp_path, 2, away=("0", "1"), collect=False)
    complete(chaos)
    assert [fact["collected"] for fact in chaos.verdict.document.environment["workers"].values()] == [False, False]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "intervals.hlog"}
    assert not messages_of(chaos, wire.Fetch)


def test_a_worker_elsewhere_that_gives_nothing_keeps_its_files_and_the_run_ends(tmp_path):
    def refuse(chaos):
        chaos.parts["c1"]._give = lambda fetch: None

    chaos = Chaos(tmp_path, 2, away=("1",), meanwhile=refuse)
    complete(chaos)
    assert chaos.verdict.document.environment["workers"]["1"]["collected"] is False
    assert not (tmp_path / "run" / "requests.1.jsonl").exists()


def test_a_part_gives_no_other_file_away(tmp_path):
    (tmp_path / "run.json").write_text("{}")

    def fetch(chaos):
        chaos.sleep(500)
        for name in ("run.json", "../../etc/passwd"):
            chaos.parts["c0"].take(wire.Frame("r", 0, 0, wire.encode(wire.Fetch(name, 0))))

    chaos = Chaos(tmp_path, 1, meanwhile=fetch)
    pieces = [message for _, message in messages_of(chaos, wire.Piece)]
    assert [(piece.name, piece.size, piece.data) for piece in pieces] == [("run.json", 0, b""), ("../../etc/passwd", 0, b"")]


def test_a_worker_that_breaks_is_lost_with_its_words(tmp_path):
    def breaks(chaos):
        chaos.sleep(1500)
        chaos.parts["c1"].channel.send(wire.encode(wire.Broken("KeyError: 'x'")))

    chaos = Chaos(tmp_path, 2, seconds=5.0, meanwhile=breaks)
    assert chaos.verdict.sentence == "worker 1 was lost: KeyError: 'x'"


def test_each_workers_own_clock_is_told_the_same_moment(tmp_path):
    chaos = Chaos(tmp_path, 3, offsets_ns=(70, 5_000_000, None), away=("1", "2"))
    t0_ns = chaos.verdict.document.started_ns
    # In one place there is one clock, and what was measured is the way's noise.
    told = {client_id: message.t0_wall_ns - t0_ns for client_id, message in messages_of(chaos, messages.Go)}
    assert told == {"c0": 0, "c1": 5_000_000, "c2": 0}
    facts = chaos.verdict.document.environment["workers"]
    assert [facts[name].get("clock_offset_ns") for name in "012"] == [70, 5_000_000, None]


def test_counts_are_merged_the_same_however_many_workers_share_the_run(tmp_path):
    documents = []
    for workers in (1, 2, 8):
        folder = tmp_path / str(workers)
        folder.mkdir()
        chaos = Chaos(folder, workers, seconds=3.0)
        documents.append(chaos.verdict.document)
        assert Counter(chaos.sent) == Counter(f"{arrival.index}.0" for arrival in chaos.plan)
    first = documents[0]
    for other in documents[1:]:
        assert other.counts == first.counts
        assert other.series == first.series


def test_a_changed_rate_is_a_stage_of_its_own_on_every_worker(tmp_path):
    def change(chaos):
        chaos.sleep(1000)
        chaos.relay.set_rate(50.0)
        chaos.sleep(6000)
        chaos.relay.stop("enough")

    chaos = Chaos(tmp_path, 3, Faults(seed=5, lost=0.2, twice=0.3, delay_ms=50), seconds=4.0, meanwhile=change)
    rows = {row.plan.name: row for row in chaos.verdict.document.stages}
    live = rows["live-1"]
    assert live.plan.says == "poisson 50/s"
    assert live.start_s == pytest.approx(1.2, abs=0.05)
    assert live.counts["scheduled"] / (live.end_s - live.start_s) == pytest.approx(50, rel=0.25)
    assert rows["poisson"].end_s == live.start_s
    assert len(chaos.sent) == len(set(chaos.sent)) == counts(chaos)["ok"]
    assert "the rate is 50/s from 1.2 s on: stage live-1" in chaos.view.notes


class Keyless(Chaos):
    """A swarm whose second worker lacks the key."""

    def set_up(self, loop, assign, told):
        if assign.shard == 1:
            raise UsageError("there is no key")
        return super().set_up(loop, assign, told)


def test_a_worker_that_cannot_take_part_is_named_unless_it_is_this_process(tmp_path, monkeypatch):
    chaos = Keyless(tmp_path)
    assert (chaos.verdict.code, chaos.verdict.sentence) == (2, "worker 1 (h): there is no key")
    assert chaos.sent == []
    monkeypatch.setattr(os, "getpid", lambda: 1)  # the workers' in these runs
    (tmp_path / "alone").mkdir()
    assert Keyless(tmp_path / "alone").verdict.sentence == "there is no key"


def test_sessions_that_people_change_are_in_the_run(tmp_path):
    def change(chaos):
        chaos.sleep(100)
        chaos.relay._sessions = Sessions(Closed(sessions=4))
        chaos.relay._sessions._said[0] = "poisson 10/s"  # as the stage says here
        chaos.relay.set_sessions(Held(4, 4, 1.0))
        for seconds, count in ((1, 5), (2, 6), (3, 7)):  # the last when the stage has ended
            chaos.sleep(seconds * 1000)
            chaos.relay.set_sessions(Held(count, 9, 1.0))

    chaos = Chaos(tmp_path, meanwhile=change)
    assert "sessions 4 -> 9 at 1/s, from 1.0 s on" in chaos.view.notes
    said = [row.plan.says for row in chaos.verdict.document.stages]
    assert said == ["closed, sessions by Locust's users (4 to 6, 9 asked for at 1/s)", "what is in flight"]


@pytest.mark.parametrize(("asked", "code"), [(True, 0), (False, 3)])
def test_an_end_that_people_asked_for_is_no_fault_of_the_run(tmp_path, asked, code):
    def end(chaos):
        chaos.sleep(2000)
        chaos.relay.stop("enough", asked=asked)

    verdict = Chaos(tmp_path, seconds=4.0, meanwhile=end).verdict
    assert (verdict.code, verdict.sentence, verdict.document.early) == (code, "enough", True)
