"""A transport without a network: each request is answered by a script, on the loop's time. For tests on virtual time.

    transport = ScriptedTransport(loop, [Script([(100 * MS, sse("a")), (20 * MS, sse("b")), (0, DONE)])])

A script is a list of steps `(delay_ns, what)`; a step's delay counts from the step before it, the first one's from the moment
of sending. `what` is body bytes, given to the receiver as one read, or one of `END` (the body ends as it should; understood
after the last step), `EOF` (the connection is closed too early), `RESET`, `HANG` (nothing more ever comes). The head arrives
with the first step, or with a step of `HEAD` of its own. `refused` fails the connection instead.
"""

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec

from r1perf.errors import TransportError
from r1perf.loop import Loop
from r1perf.transport import Exchange, HttpRequest, Receiver


class Mark(Enum):
    """What can happen in a script beside body bytes."""

    HEAD = "head"
    END = "end"
    EOF = "eof"
    RESET = "reset"
    HANG = "hang"


HEAD, END, EOF, RESET, HANG = Mark.HEAD, Mark.END, Mark.EOF, Mark.RESET, Mark.HANG
DONE = b"data: [DONE]\n\n"
NEVER_NS = 2**62


class Script(msgspec.Struct, frozen=True):
    """The answer to one request. `connect_ns` passes before the first step; None is a connection that was open."""

    steps: Sequence[tuple[int, bytes | Mark]] = ()
    status: int = 200
    headers: dict[str, str] = msgspec.field(default_factory=lambda: {"content-type": "text/event-stream"})
    connect_ns: int | None = None
    refused: bool = False


class ScriptedTransport:
    """A `Transport` that answers the n-th request with the n-th script (the last one serves all that follow), or with what a function
    returns for it. `requests` keeps what was sent; `open` counts exchanges that are running, `closed` tells whether `close` was called.
    """

    def __init__(self, loop: Loop, scripts: Sequence[Script] | Callable[[HttpRequest], Script]) -> None:
        self._loop = loop
        self._scripts = scripts
        self.requests: list[HttpRequest] = []
        self.open = 0
        self.closed = False

    def exchange(self, request: HttpRequest, receiver: Receiver) -> Exchange:
        """Play the script of this request; see `Transport`."""
        scripts = self._scripts
        script = scripts(request) if callable(scripts) else scripts[min(len(self.requests), len(scripts) - 1)]
        self.requests.append(request)
        local_port = 30_000 + len(self.requests) % 30_000
        self.open += 1
        try:
            if script.connect_ns:
                self._loop.sleep_until(self._loop.now_ns() + script.connect_ns)
            if script.refused:
                raise TransportError("connect_error", "refused", "no connection to the script: connection refused")
            receiver.on_connection(script.connect_ns, local_port)
            return Exchange(script.connect_ns, local_port, self._play(script, receiver))
        finally:
            self.open -= 1

    def _play(self, script: Script, receiver: Receiver) -> int:
        """Go through the steps, return when the answer was complete."""
        due_ns = self._loop.now_ns()
        late = receiver.deadline_ns()
        headed = False
        for delay_ns, what in (*script.steps, (0, END)):
            due_ns = NEVER_NS if what is HANG else due_ns + delay_ns
            late = self._wait(due_ns, late, receiver)
            now_ns = self._loop.now_ns()
            if what is RESET or what is EOF:
                name = what.value
                if headed:
                    raise TransportError("stream_broken", name, f"the script's connection ended within the response ({name})")
                raise TransportError("connect_error", name, f"the script's connection ended before any response ({name})")
            if not headed:
                headed = True
                receiver.on_head(now_ns, script.status, script.headers)
            if what is END or (isinstance(what, bytes) and receiver.on_body(now_ns, what)):
                break
        return self._loop.now_ns()

    def _wait(self, due_ns: int, late: tuple[int, str], receiver: Receiver) -> tuple[int, str]:
        """Wait for a step, and ask for the deadline again only when it has passed, as a real transport does."""
        while self._loop.now_ns() < due_ns:
            if late[0] <= self._loop.now_ns():
                late = receiver.deadline_ns()
                if late[0] <= self._loop.now_ns():
                    raise TransportError("timeout", late[1], f"the response took longer than timeouts.{late[1]}")
            self._loop.sleep_until(min(due_ns, late[0]))
        return late

    def close(self) -> None:
        """Take note that the transport was closed."""
        self.closed = True


def sse(text: str, field: str = "content", finish: str | None = None) -> bytes:
    """Make one event of a chat stream that carries `text` in `field`."""
    body = {"choices": [{"index": 0, "delta": {field: text} if text else {}, "finish_reason": finish}]}
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def usage(prompt_tokens: int, completion_tokens: int, reasoning_tokens: int | None = None) -> bytes:
    """Make the event that carries the token counts."""
    counts: dict[str, object] = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    if reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return b"data: " + msgspec.json.encode({"choices": [], "usage": counts}) + b"\n\n"
