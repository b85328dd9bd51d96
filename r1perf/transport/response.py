"""The reading of one response, without any input or output: bytes in, calls of a `Receiver` out."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from r1perf.errors import TransportError
from r1perf.transport import Receiver
from r1perf.transport.encoding import Inflater, inflater


class Response:
    """One response while its bytes come in; framing is httptools' business (llhttp).

    `complete`: the framing has ended. `answered`: the receiver said that the answer has. `keep_alive`: the connection may carry
    another request. The methods whose names begin with `on_` are httptools' protocol.
    """

    __slots__ = (
        "_feed", "_headed", "_headers", "_inflater", "_interim", "_method", "_parser", "_parts", "_receiver", "_until_eof",
        "answered", "chunked", "complete", "done_ns", "keep_alive", "on_body", "started", "status",
    )  # fmt: skip

    def __init__(self, receiver: Receiver, method: str = "POST") -> None:
        self._receiver = receiver
        self._method = method
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # httptools calls it for each piece; no Python frame in between
        self._headers: dict[str, str] = {}
        self._headed = False  # the receiver has the head
        self._interim = False
        self._until_eof = False
        self._inflater: Inflater | None = None
        self.status = 0
        self.started = self.answered = self.chunked = self.complete = self.keep_alive = False
        self.done_ns = 0
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._feed = self._parser.feed_data

    def feed(self, now_ns: int, data: bytes) -> None:
        """Take the bytes of one read; raises TransportError where they are no HTTP, and what the receiver raises."""
        self.started = True
        if self.complete:  # nothing was asked for
            self.keep_alive = False
            return
        error: TransportError | None = None
        try:
            self._feed(data)
        except (HttpParserError, HttpParserUpgrade) as failure:
            self.keep_alive = False
            if not self.complete:
                error = TransportError("stream_broken", "protocol", f"the response is not HTTP/1.1: {_sentence(failure)}")
        if not self._headed:
            if not self.status:
                if error is not None:
                    raise error
                return
            self._headed = True
            self._receiver.on_head(now_ns, self.status, self._headers)
            if self._parts or not self.complete:
                self._inflater = inflater(self._headers.get("content-encoding", ""))
        parts = self._parts
        if parts:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            if self._inflater is not None:
                body = self._inflater.feed(body)
            if body and self._receiver.on_body(now_ns, body) and not self.answered:
                self.answered = True
                self.done_ns = now_ns
        if error is not None:
            raise error
        if self.complete:
            self._end(now_ns)

    def end(self, now_ns: int) -> None:
        """Take note that the connection ended; raises TransportError where the response had not."""
        self.keep_alive = False
        if self.complete:
            return
        if not (self._headed and self._until_eof):
            raise TransportError("stream_broken", "eof", "the connection was closed before the end of the response")
        self.complete = True
        self._end(now_ns)

    def release(self) -> None:
        """Part from the parser, so that the two are freed at once and not by the cycle collector."""
        self._parser = None
        del self._feed, self.on_body

    def _end(self, now_ns: int) -> None:
        if not self.answered:
            self.done_ns = now_ns
            if self._inflater is not None and not self._inflater.whole:
                raise TransportError("stream_broken", "eof", "the response's compressed body ended early")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the head; trailers come after it and are ignored."""
        if self.status:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Tell an interim response (RFC 9110, 15.2) from the final one, and how the latter's body ends (RFC 9112, 6.3)."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            self._interim = True
            self._headers = {}
            return
        self.status = status
        self.keep_alive = self._parser.should_keep_alive()
        if self._method == "HEAD":
            self.complete = True
            return
        coding = self._headers.get("transfer-encoding", "")
        self.chunked = coding.lower().rpartition(",")[2].strip() == "chunked"
        self._until_eof = not self.chunked and (bool(coding) or "content-length" not in self._headers)

    def on_message_begin(self) -> None:
        """Refuse a second response behind the one that was asked for: raising stops the parser."""
        if self.complete:
            raise ValueError("a response that was not asked for")

    def on_message_complete(self) -> None:
        """End the response, unless it was an interim one."""
        if self._interim:
            self._interim = False
        else:
            self.complete = True


def _sentence(failure: Exception) -> str:
    return "it switches protocols" if isinstance(failure, HttpParserUpgrade) else str(failure) or "damaged"
