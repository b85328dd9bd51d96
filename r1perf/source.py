"""One workload, ready to be asked: conversations by item, calls rendered from them, answers graded."""

import traceback

from r1perf.client import Reply
from r1perf.datasets import Conversation, Items, Turn
from r1perf.grading import Grade, Graded, grade
from r1perf.result import Outcome
from r1perf.target import Call, Message, Target
from r1perf.units import Tokens
from r1perf.workload import Workload

KEEP_ANSWER = 200_000
"""Characters of an answer that are kept until the next turn is rendered; never longer, never on disk."""

KEEP_GRADED = 1_000_000
"""The same until it is graded: its end decides, and no answer that fits into R1's 131,072 tokens is as long."""

KEEP_READ = 64
"""Characters of what was read as a graded answer, which stand in its request's line."""

SIMULATED_ANSWER = "x-r1sim-answer"
"""The header in which the simulated endpoint takes the right answer; no other target is sent it."""


class WorkloadSource:
    """See `traffic.Source`."""

    def __init__(self, workload: Workload, items: Items, target: Target, *, simulated: bool = False) -> None:
        self.items = items
        self._workload = workload
        self._target = target
        self._simulated = simulated
        self._faulty = False  # the grader has failed, and said so

    def of(self, items: Items) -> "WorkloadSource":
        """Return the same workload over other items."""
        return WorkloadSource(self._workload, items, self._target, simulated=self._simulated)

    def call(self, conversation: Conversation, turn: Turn, messages: tuple[Message, ...]) -> Call:
        """Render one turn; `messages` is everything that was said before it."""
        workload, completions = self._workload, self._target.endpoint == "completions"
        said = (*messages, Message("user", turn.text, turn.shared))
        needed = turn is not conversation.turns[-1] and turn.recorded_answer is None
        most = turn.max_tokens or workload.max_tokens
        return Call(
            messages=() if completions else said,
            prompt="\n\n".join(message.content for message in said) if completions else None,
            model=workload.model or self._target.model,
            max_tokens=None if most is None else Tokens(most),
            output_tokens=None if turn.output_tokens is None else Tokens(turn.output_tokens),
            sampling=workload.sampling,
            headers={**workload.headers, **conversation.headers, **self._hint(turn)},
            extra_body=workload.extra_body,
            body=turn.body,
            keep_answer=KEEP_GRADED if turn.expected is not None else KEEP_ANSWER if needed else 0,
            cache_control=getattr(workload.dataset, "cache_control", False),
        )

    def _hint(self, turn: Turn) -> dict[str, str]:
        """Tell the embedded simulated endpoint the right answer, so that it can be right as often as its profile says."""
        told = self._simulated and turn.expected is not None and turn.expected.isascii() and turn.expected.isprintable()
        return {SIMULATED_ANSWER: turn.expected} if told and turn.expected is not None else {}

    def grade(self, turn: Turn, reply: Reply) -> Graded | None:
        """Grade an answer that ended well; what failed or was cut by the run's end has no grade.

        Never raises: a fault of the grader is no reason to end a run. It goes to the log once, and such answers count as unanswered.
        """
        outcome = reply.result.outcome
        if turn.expected is None or outcome not in (Outcome.OK, Outcome.TRUNCATED):
            return None
        try:
            found = grade(reply.answer, turn.expected, truncated=outcome is Outcome.TRUNCATED)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is ours
            if not self._faulty:
                self._faulty = True
                traceback.print_exception(error)
            return Graded(Grade.UNANSWERED, None)
        return found if found.answer is None else found._replace(answer=found.answer.strip()[:KEEP_READ])
