"""Read a clause's text; whether its names and units fit is `validate`'s question.

    clause    := aggregate op ( bound | baseline ) [ "during" stage ]
    aggregate := fn "(" name ")" selector?
               | "goodput" "(" limit { "," limit } ")" selector?
               | ( "error_rate" | "accuracy" ) selector?
    fn        := "p" number | "mean" | "max" | "throughput" | "cost_per_1m"
    limit     := name op bound
    selector  := "{" key "=" value { "," key "=" value } "}"
    op        := "<" | "<=" | ">" | ">="
    bound     := number unit? | "$" number
    unit      := "us" | "ms" | "s" | "m" | "h" | "/s" | "/min" | "/h" | "%" | "k" | "M" | "tokens"
    baseline  := "baseline" ( "+" | "-" ) number "%"
    number    := digits [ "." digits ]
    stage     := value := [a-z0-9] { [a-z0-9_-] }
    name      := key := [a-z] { [a-z0-9_] }

Space may stand between any two of these. The longest word wins, so `10min` is not `10m` and something.
"""

import difflib
import re
from collections.abc import Iterable

import msgspec

from r1perf.errors import ClauseError
from r1perf.sla.clauses import (
    UNITS,
    Accuracy,
    Aggregate,
    Baseline,
    Bound,
    Clause,
    Cost,
    ErrorRate,
    Goodput,
    Max,
    Mean,
    MetricLimit,
    Op,
    Quantile,
    Throughput,
)  # fmt: skip

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_VALUE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OP = re.compile(r"<=|>=|<|>")
_UNIT = re.compile(r"%|/?[A-Za-z]+")
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")

_FUNCTIONS = ("p95", "mean", "max", "throughput", "cost_per_1m", "goodput", "error_rate", "accuracy")
_AGGREGATES = "p50 .. p99.9, mean, max, throughput, cost_per_1m, goodput, error_rate, accuracy"


class Reading(msgspec.Struct, frozen=True):
    """A clause and where its parts stand in the text (columns from 1): fn, metric, op, bound, during, limit <i>,
    key <selector's key>, and a selector's key for its value.
    """

    clause: Clause
    text: str
    columns: dict[str, int]

    def error(self, part: str, message: str) -> ClauseError:
        """Make the error that points at a part."""
        return ClauseError(self.text, self.columns.get(part, 1), message)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return the nearest allowed words as the end of a sentence, or all of them where none is near."""
    names = list(allowed)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"allowed: {', '.join(names) or 'none'}"


def read(text: str) -> Reading:
    """Read one clause; raises ClauseError that points at the first column that cannot be read."""
    scanner = _Scanner(text)
    aggregate = _aggregate(scanner)
    selector = _selector(scanner)
    op = _op(scanner)
    scanner.mark("bound")
    bound: Bound | Baseline = _baseline(scanner) if scanner.next_is("baseline") else _bound(scanner)
    during = None
    if not scanner.at_end():
        scanner.word("during", "`during STAGE` or the end of the clause")
        scanner.mark("during")
        during = scanner.take(_VALUE, "the name of a stage")
    if not scanner.at_end():
        scanner.fail("the end of the clause")
    return Reading(Clause(aggregate, op, bound, selector, during), text, scanner.columns)


class _Scanner:
    """Walk over a text and remember where parts begin."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\n", " ").replace("\t", " ")
        self.at = 0
        self.columns: dict[str, int] = {}
        self._skip()

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def at_end(self) -> bool:
        return self.at == len(self.text)

    def mark(self, part: str) -> None:
        self.columns[part] = self.at + 1

    def fail(self, wanted: str, at: int | None = None) -> None:
        place = self.at if at is None else at
        seen = _WORD.match(self.text, place) or _NUMBER.match(self.text, place)
        found = "the end" if place >= len(self.text) else f"`{seen[0] if seen else self.text[place]}`"
        raise ClauseError(self.text, place + 1, f"expected {wanted}, found {found}")

    def peek(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self.text, self.at)
        return match[0] if match else None

    def take(self, pattern: re.Pattern[str], wanted: str) -> str:
        found = self.peek(pattern)
        if not found:
            self.fail(wanted)
            raise AssertionError
        self.at += len(found)
        self._skip()
        return found

    def next_is(self, word: str) -> bool:
        return self.peek(_WORD) == word

    def word(self, word: str, wanted: str) -> None:
        if not self.next_is(word):
            self.fail(wanted)
        self.take(_WORD, wanted)

    def accept(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self._skip()
        return True

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            self.fail(f"`{sign}`")


def _aggregate(scanner: _Scanner) -> Aggregate:
    scanner.mark("fn")
    start = scanner.at
    fn = scanner.take(_WORD, f"an aggregate ({_AGGREGATES})")
    if fn == "error_rate":
        return ErrorRate()
    if fn == "accuracy":
        return Accuracy()
    percentile = _PERCENTILE.fullmatch(fn)
    if percentile is None and fn not in _FUNCTIONS:
        raise ClauseError(scanner.text, start + 1, f"unknown aggregate `{fn}`; {did_you_mean(fn, _FUNCTIONS)}")
    scanner.expect("(")
    if fn == "goodput":
        limits = [_limit(scanner, 0)]
        while scanner.accept(","):
            limits.append(_limit(scanner, len(limits)))
        scanner.expect(")")
        return Goodput(tuple(limits))
    scanner.mark("metric")
    metric = scanner.take(_KEY, "the name of a metric")
    scanner.expect(")")
    if percentile:
        return Quantile(percentile[1], metric)
    match fn:
        case "mean":
            return Mean(metric)
        case "max":
            return Max(metric)
        case "throughput":
            return Throughput(metric)
    return Cost(metric)


def _limit(scanner: _Scanner, index: int) -> MetricLimit:
    scanner.mark(f"limit {index}")
    metric = scanner.take(_KEY, "a limit such as ttft<800ms")
    op = _op(scanner)
    return MetricLimit(metric, op, _bound(scanner))


def _selector(scanner: _Scanner) -> tuple[tuple[str, str], ...]:
    if not scanner.accept("{"):
        return ()
    pairs: dict[str, str] = {}
    while True:
        start = scanner.at
        key = scanner.take(_KEY, "a key such as workload")
        scanner.columns[f"key {key}"] = start + 1
        if key in pairs:
            raise ClauseError(scanner.text, start + 1, f"`{key}` is selected twice")
        scanner.expect("=")
        scanner.mark(key)
        pairs[key] = scanner.take(_VALUE, f"the name of a {key}")
        if scanner.accept("}"):
            return tuple(sorted(pairs.items()))
        if not scanner.accept(","):
            scanner.fail("`,` or `}`")


def _op(scanner: _Scanner) -> Op:
    scanner.mark("op")
    found = scanner.take(_OP, "one of < <= > >=")
    for op in ("<", "<=", ">", ">="):
        if op == found:
            return op
    raise AssertionError(found)


def _bound(scanner: _Scanner) -> Bound:
    if scanner.accept("$"):
        return Bound(scanner.take(_NUMBER, "an amount of money"), "$")
    number = scanner.take(_NUMBER, "a number with its unit, or `baseline`")
    unit = scanner.peek(_UNIT)
    if unit is None or unit == "during":
        return Bound(number, "")
    if unit not in UNITS:
        words = [name for name in UNITS if name and name != "$"]
        raise ClauseError(scanner.text, scanner.at + 1, f"unknown unit `{unit}`; allowed: {' '.join(words)}, or $ in front")
    scanner.take(_UNIT, "a unit")
    return Bound(number, unit)


def _baseline(scanner: _Scanner) -> Baseline:
    scanner.word("baseline", "`baseline`")
    minus = scanner.accept("-")
    if not minus and not scanner.accept("+"):
        scanner.fail("`+` or `-` and a percentage, such as baseline +10%")
    percent = scanner.take(_NUMBER, "a percentage such as 10%")
    scanner.expect("%")
    return Baseline("-" if minus else "+", percent)
