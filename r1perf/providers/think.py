"""Tell reasoning from answer in a text that carries `<think>` tags, whichever way the tags are cut over events.

Every event is classified when it comes, since its stamp is taken then; what a later event shows to have been wrong is
taken back by `Chunk.rethink`. A tag on its own is text that the model made: it counts as reasoning. The state machine:

    prefilled ─────────────────────────────┐
    tags, auto ──> START ── "<think>" ──> INSIDE ── "</think>" ──> OVER
                     │ other text: tags ──────────────────────────> OVER
                     └ other text: auto ──> WATCH ── "</think>" ──> OVER     (rethink: the tag had been pre-filled)
    field, none ──────────────────────────────────────────────────> OVER

In OVER all text is answer and nothing is searched any more: an answer may quote the tags.
"""

from r1perf.providers import Chunk, Facts, Kind

OPEN, CLOSE = "<think>", "</think>"
START, WATCH, PREFILLED, INSIDE, OVER = range(5)
_BEGIN = {"auto": START, "tags": START, "prefilled": PREFILLED, "field": OVER, "none": OVER}

THOUGHT = Chunk(Kind.REASONING, "")
RETHOUGHT = Chunk(Kind.REASONING, "", rethink=True)


class Think:
    """Hold where in the text a response is, and write what it finds into the response's facts."""

    __slots__ = ("_facts", "_held", "_said", "_state", "_watch")

    def __init__(self, reasoning: str, facts: Facts) -> None:
        self._facts = facts
        self._state = _BEGIN[reasoning]
        self._watch = reasoning == "auto"
        self._held = ""  # the end of the text so far, where it may begin a tag
        self._said = False  # something was given as answer

    def over(self) -> None:
        """Take note that reasoning has a field of its own here, so that the text is all answer."""
        self._state = OVER
        self._facts.reasoning_tag_open = False

    def take(self, text: str) -> Chunk:
        """Classify the text of one event."""
        state = self._state
        if state == OVER:
            return Chunk(Kind.ANSWER, text)
        if state == INSIDE:
            return self._inside(text) if self._held or "<" in text else THOUGHT
        if state == WATCH:
            return self._watched(text) if self._held or "<" in text else Chunk(Kind.ANSWER, text)
        if state == PREFILLED:
            self._enter()
            return self._inside(text)
        return self._begin(text)

    def _begin(self, text: str) -> Chunk:
        """Look for the opening tag, before which only blanks may stand."""
        begun = (self._held + text).lstrip()
        if begun.startswith(OPEN):
            self._held = ""
            self._enter()
            rest = begun[len(OPEN) :]
            chunk = self._inside(rest) if rest else THOUGHT
            return chunk._replace(rethink=True) if self._said else chunk
        if OPEN.startswith(begun):
            self._held = begun
            self._said = True
            return Chunk(Kind.ANSWER, text)
        if self._watch:
            self._state = WATCH
            return self._watched(text)
        self._state = OVER
        return Chunk(Kind.ANSWER, text)

    def _enter(self) -> None:
        self._state = INSIDE
        self._facts.reasoning_tag_open = True
        self._facts.reasoning_field = "content"

    def _inside(self, text: str) -> Chunk:
        """Look for the end of the reasoning."""
        rest = self._after_close(text)
        if rest is None:
            return THOUGHT
        self._facts.reasoning_tag_open = False
        return Chunk(Kind.ANSWER, rest, thought=True) if rest else THOUGHT

    def _watched(self, text: str) -> Chunk:
        """Look for a closing tag that nothing opened."""
        rest = self._after_close(text)
        if rest is None:
            return Chunk(Kind.ANSWER, text)
        self._facts.prefilled = True
        self._facts.reasoning_field = "content"
        return Chunk(Kind.ANSWER, rest, thought=True, rethink=True) if rest else RETHOUGHT

    def _after_close(self, text: str) -> str | None:
        """Return what follows the closing tag, or None where it has not come; keep what may be its beginning."""
        text = self._held + text
        at = text.find(CLOSE)
        if at >= 0:
            self._held = ""
            self._state = OVER
            return text[at + len(CLOSE) :]
        at = text.rfind("<")
        self._held = text[at:] if at >= 0 and CLOSE.startswith(text[at:]) else ""
        return None
