"""Write the ground-truth log: one JSON line a request, when it has ended."""

from pathlib import Path
from typing import IO

import msgspec

from r1perf.errors import UsageError
from r1perf.simulator.timer import monotonic_ns, wall_ns


class Truth(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Say what became of one request. All `*_ns` are monotonic; `wall_offset_ns` added to one gives nanoseconds UTC.

    `ending` is `complete` (the answer was sent to its end), `refused` (a status other than 200), `aborted` (the client
    left), `cut` (broken on purpose), `error` (an error was sent in the stream), `stopped` (the simulator was ended). A stamp
    is taken right before the write that it belongs to. `output_tokens` were made by the engine; `chunks` and `tokens_ns` were
    written, which is less where a fault held output back until the request ended.
    """

    id: str
    endpoint: str
    stream: bool = True
    received_ns: int
    head_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    ended_ns: int = 0
    wall_offset_ns: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    chunks: int = 0
    planned_tokens: int = 0
    status: int | None = None
    finish_reason: str | None = None
    fault: str | None = None
    ending: str = ""
    answer: str | None = None  # what was put into \boxed{}
    client_port: int | None = None
    client_id: str | None = None  # the request's x-request-id
    tokens_ns: list[int] | None = None  # when each token was written


class TruthLog:
    """Append truths to a file; flushed line by line, since others read it while the simulator runs."""

    def __init__(self, path: str | None) -> None:
        self._file: IO[bytes] | None = None
        before, wall, after = monotonic_ns(), wall_ns(), monotonic_ns()
        self._offset_ns = wall - (before + after) // 2
        if path is not None:
            try:
                self._file = Path(path).open("ab")  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise UsageError(f"the truth log {path} cannot be written: {error.strerror}") from error

    def write(self, truth: Truth) -> None:
        """Append one line."""
        if self._file is not None:
            truth.wall_offset_ns = self._offset_ns
            self._file.write(msgspec.json.encode(truth) + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
