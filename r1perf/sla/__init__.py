"""Judge what a run promised: clauses, exact statistics, verdicts.

`parse` reads a clause and checks it before a run, `watch` says what a worker counts for it, `judge` gives its verdict on the evidence,
`family` looks at all verdicts together, `render` writes one for people.
"""

from r1perf.errors import ClauseError
from r1perf.sla.account import Account
from r1perf.sla.archive import judge_archive, runs_in
from r1perf.sla.clauses import Baseline, Bound, Clause
from r1perf.sla.compile import watch
from r1perf.sla.dependence import Clusters
from r1perf.sla.evidence import Attempts, Circumstances, Evidence, Flow, Runs, Window
from r1perf.sla.finding import Verdict
from r1perf.sla.foresight import Foresight, foresee
from r1perf.sla.judge import family, judge
from r1perf.sla.limits import Fate, Limit, Watch, fate
from r1perf.sla.planned import planned
from r1perf.sla.render import render
from r1perf.sla.special import require
from r1perf.sla.standing import Standing
from r1perf.sla.tallied import Tallied
from r1perf.sla.tally import Tallier, Tally
from r1perf.sla.terms import Terms, outline, scope_of, terms, unique
from r1perf.sla.validate import Scope, parse
from r1perf.sla.verdicts import broken, entries, exit_code, read_verdicts, verdicts

__all__ = [
    "Account",
    "Attempts",
    "Baseline",
    "Bound",
    "Circumstances",
    "Clause",
    "ClauseError",
    "Clusters",
    "Evidence",
    "Fate",
    "Flow",
    "Foresight",
    "Limit",
    "Runs",
    "Scope",
    "Standing",
    "Tallied",
    "Tallier",
    "Tally",
    "Terms",
    "Verdict",
    "Watch",
    "Window",
    "broken",
    "entries",
    "exit_code",
    "family",
    "fate",
    "foresee",
    "judge",
    "judge_archive",
    "outline",
    "parse",
    "planned",
    "read_verdicts",
    "render",
    "require",
    "runs_in",
    "scope_of",
    "terms",
    "unique",
    "verdicts",
    "watch",
]
