"""Draw what belongs to workloads rather than to latency: prompts and the prefix cache, accuracy, what the run's end hides."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from r1perf.datasets.facts import Prompting
from r1perf.metrics import METRICS
from r1perf.report.tables import new_table
from r1perf.report.wording import NONE, count, duration, percent, plural, share, whole
from r1perf.summary import Accuracy, Between, Caching, Document, SeriesRow, WorkloadRow

Rows = dict[tuple[str, str | None, str | None], SeriesRow]


def caching_table(document: Document, rows: Rows) -> Table:
    """Show what the prefix cache served and TTFT without and with it, by workload and for the target."""
    table = new_table("TTFT by prefix cache", "", "hit ratio", "cold", "p50", "p95", "warm", "p50", "p95", "other")
    found: list[tuple[str, str | None, Caching | None]] = []
    if len(document.workloads) > 1:
        found += [(row.name, row.name, row.caching) for row in document.workloads]
    found.append(("all", None, document.caching))
    for title, name, caching in found:
        if caching is None:
            continue
        cells = []
        for warmth, n in (("cold", caching.cold), ("warm", caching.warm)):
            row = rows.get((f"ttft_{warmth}", name, None))
            cells += [count(n), *(duration(None if row is None else min(value, row.max)) for value in _ends(row))]
        table.add_row(title, percent(caching.hit_ratio), *cells, count(caching.partly))
    return table


def _ends(row: SeriesRow | None) -> tuple[float, float]:
    return (0.0, 0.0) if row is None else (row.p50, row.p95)


def prompting_lines(document: Document) -> Iterator[Text]:
    """Say of each workload what is done about caches, how often its prompts repeat, and how its lengths were counted."""
    for workload in document.workloads:
        if workload.prompting is not None:
            yield Text(f"prompts of {workload.name}: {prompting(workload.prompting)}")


def prompting(facts: Prompting) -> str:
    """Say it in one line."""
    said = [f"cache {facts.cache}" + (", with cache_control hints" if facts.cache_control else "")]
    if (known := facts.repeats) is not None and known.prompts:
        whole_ones = f"{count(known.repeated)} of the first {count(known.prompts)} are repetitions"
        said.append(f"{whole_ones}, {percent(known.shared)} of their text begins as an earlier one did")
    if (fitted := facts.calibration) is not None:
        error = "" if fitted.error is None else f", error up to {percent(fitted.error)}"
        said.append(
            f"lengths calibrated by {plural(fitted.requests, 'request')} before the run: {fitted.tokens_per_word:.3f} tokens a word and "
            f"{fitted.overhead} for the template{error}"
        )
    if facts.lengthened:
        said.append(f"{percent(facts.lengthened)} are longer than asked: the template and one word have more tokens")
    return "; ".join(said)


def accuracy_lines(workload: WorkloadRow) -> Iterator[Text]:
    """Say how many answers were right, with the interval, and what the answers that were cut could change."""
    made = workload.accuracy
    if made is None:
        return
    kinds = ", ".join(f"{grade} {count(n)}" for grade, n in workload.grades.items())
    total = sum(workload.grades.values())
    line = (
        f"accuracy of {workload.name}: {share(workload.grades.get('right', 0), total)}{_interval(made.low, made.high)} ({kinds})"
    )
    answered = workload.grades.get("right", 0) + workload.grades.get("wrong", 0)
    if answered < total and made.answered is not None and made.answered_low is not None and made.answered_high is not None:
        line += f"; of those answered {percent(made.answered)}{_interval(made.answered_low, made.answered_high)}"
    yield Text(line)
    if made.least is not None and made.most is not None:
        yield Text(_cut(workload.name, made, made.least, made.most), style="yellow")


def _cut(name: str, made: Accuracy, least: float, most: float) -> str:
    return (
        f"accuracy of {name}: {plural(made.cut, 'answer')} more {'was' if made.cut == 1 else 'were'} cut by the run's end; "
        f"with {'it' if made.cut == 1 else 'them'} it lies between {percent(least)} and {percent(most)}"
    )


def _interval(low: float, high: float) -> str:
    return f" [95 %: {percent(low)} to {percent(high)}]"


def bounds_tables(document: Document) -> Iterator[Table]:
    """Show between what the percentiles of all requests lie where the run's end cut some, a table a metric."""
    for metric in dict.fromkeys(row.metric for row in document.bounds):
        table = new_table(f"{METRICS[metric].title}, cut ones included", "", "cut", "p50", "p90", "p95", "p99")
        for row in document.bounds:
            if row.metric == metric:
                ranks = (row.p50, row.p90, row.p95, row.p99)
                table.add_row(row.workload or "all", count(row.cut), *(_between(bound, row.unit) for bound in ranks))
        yield table


def _between(bound: Between, unit: str) -> str:
    def shown(value: float) -> str:
        return whole(value) if unit == "tokens" else duration(value)

    if bound.least is None and bound.most is None:
        return NONE
    if bound.least is None or bound.most is None:
        return f"≤ {shown(bound.most)}" if bound.most is not None else f"≥ {shown(bound.least or 0.0)}"
    least, most = shown(bound.least), shown(bound.most)
    if least.partition(" ")[2] == most.partition(" ")[2]:  # one unit is enough
        least = least.partition(" ")[0]
    return f"{least} to {most}"
