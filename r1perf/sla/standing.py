"""Hold how the clauses of a run stand while it goes on, and judge them when it is over."""

from collections.abc import Sequence
from functools import partial

import msgspec

from r1perf.scenario import Scenario
from r1perf.sla.account import Account
from r1perf.sla.finding import Verdict
from r1perf.sla.tallied import Tallied
from r1perf.sla.tally import Tally
from r1perf.sla.terms import Terms
from r1perf.sla.verdicts import broken, verdicts
from r1perf.snapshot import Snapshot
from r1perf.summary import Summary, validity

_decode = msgspec.msgpack.Decoder(list[Tally]).decode


class Standing:
    """The clauses of one live run."""

    def __init__(self, scenario: Scenario, terms: Terms, summary: Summary) -> None:
        self._tallied = Tallied()
        self._ahead: dict[str, tuple[int, list[Tally]]] = {}  # by worker, of its newest snapshot
        self._summary = summary
        self._account = partial(Account, summary, scenario, terms)

    def add(self, snapshot: Snapshot) -> None:
        """Count a snapshot, once."""
        self._tallied.add(_decode(snapshot.tallies))
        newest, _ = self._ahead.get(snapshot.worker, (-1, []))
        if snapshot.k > newest:
            self._ahead[snapshot.worker] = snapshot.k, _decode(snapshot.ahead)

    def broken(self) -> Verdict | None:
        """Return the first clause that fails whatever the requests still to come do; an invalid run has none.

        Requests in flight whose miss is certain have missed: an answer that began late is late however long it lasts.
        """
        now = self._tallied.plus(row for _, rows in self._ahead.values() for row in rows)
        return broken(self._account(now), validity(self._summary, ended=False).reasons)

    def verdicts(self, invalid: Sequence[str], early: str | None) -> list[Verdict]:
        """Judge all clauses; `invalid` are the reasons for which the run says nothing, `early` is why it ended before its plan did."""
        return verdicts(self._account(self._tallied), invalid=invalid, early=early)
