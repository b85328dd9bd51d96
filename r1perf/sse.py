"""Split the bytes of an event stream into events, by the WHATWG rules, however the bytes were cut by the network.

LF, CRLF and CR end a line (a CRLF may be cut in two), a blank line ends an event, `data` lines add up with LF between them,
one space after the colon belongs to the syntax, a leading BOM is skipped, lines that begin with a colon are comments. Two
liberties, both seen in the field: an event whose blank line never came is given by `end()`, and an `error` event without data
carries its comment as data (NVIDIA Dynamo sends errors so). Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from r1perf.errors import TransportError

Event = tuple[bytes, str]
"""The data of one event and its name; the name is "" where the stream gave none."""

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""The longest event that is kept waiting for its end."""

_BOM = b"\xef\xbb\xbf"


class Splitter:
    """Hold the state between reads: what has come of an event that is not complete."""

    __slots__ = ("_clean", "_parts", "_size", "_skip_lf", "_started", "comments")

    def __init__(self) -> None:
        self.comments = 0
        self._clean = False  # nothing is pending, so that a read may begin an event
        self._started = False  # past the first event, where a BOM may stand
        self._skip_lf = False  # the last read ended in CR: an LF that follows belongs to it
        self._parts: list[bytes] = []  # with line ends turned into LF
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        """Take the bytes of one read and return the events that they complete; raises TransportError on an endless event."""
        # What nearly every read of a token stream is: one whole event of one line. (A CR before it may still wait for its LF, which
        # is a blank line then, and changes nothing.)
        if (
            self._clean
            and data.startswith(b"data: {")
            and data.find(b"\n") == len(data) - 2
            and data[-1] == 10
            and b"\r" not in data
        ):
            return [(data[6:-2], "")]
        return self._feed(data)

    def end(self) -> list[Event]:
        """Return the event that the end of the stream left without its blank line, if any."""
        block = b"".join(self._parts)
        self._parts, self._size = [], 0
        return self._events([block]) if block else []

    def _feed(self, data: bytes) -> list[Event]:
        if data and self._skip_lf:
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            self._hold(data)
            return []
        if self._parts:
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
        *blocks, rest = data.split(b"\n\n")
        events = self._events(blocks)
        self._hold(rest)
        return events

    def _hold(self, data: bytes) -> None:
        """Keep the beginning of an event, if there is one."""
        if data:
            self._parts.append(data)
            self._size += len(data)
            if self._size > MAX_EVENT_BYTES:
                raise TransportError(
                    "stream_broken", "event_too_large", f"one event of the stream is longer than {MAX_EVENT_BYTES >> 20} MiB"
                )
        self._clean = self._started and not self._parts

    def _events(self, blocks: list[bytes]) -> list[Event]:
        events: list[Event] = []
        if blocks and not self._started:
            self._started = True
            blocks[0] = blocks[0].removeprefix(_BOM)
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:
                events.append((block[6:], ""))
            elif block:
                self._lines(block, events)
        return events

    def _lines(self, block: bytes, events: list[Event]) -> None:
        """Read the lines of one event."""
        data: list[bytes] = []
        comments: list[bytes] = []
        name = ""
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value.decode("utf-8", "replace")
            elif not field and line:
                self.comments += 1
                comments.append(value)
        if data:
            events.append((b"\n".join(data), name))
        elif name == "error":
            events.append((b"\n".join(comments), name))
