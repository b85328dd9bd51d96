"""The errors that r1perf raises; each message is one sentence for the person who ran the command.

R1perfError
├── UsageError            the command, the scenario or a file that it names is wrong      exit 2
│   ├── ScenarioError     a key or value of a scenario (its `path` is in the sentence)
│   ├── DatasetError      a dataset cannot be loaded (file, line and reason)
│   └── ClauseError       a clause of an SLA (its text is in the sentence, with a mark under the column)
├── TargetError           the target is wrong or cannot be reached before the run         exit 2
├── TransportError        one HTTP exchange failed; becomes that request's outcome
├── ArchiveError          a run archive cannot be written or read (disk full, damaged)
├── WorkerError           a worker process ended or answered what it must not
└── DatabaseError         a database cannot be reached, or refuses what it is asked               exit 2
"""


class R1perfError(Exception):
    """Be the root of every error that r1perf raises on purpose."""


class UsageError(R1perfError):
    """Say that the command, a scenario or a file that it names is wrong."""


class ScenarioError(UsageError):
    """Say which key or value of a scenario is wrong, and what is allowed.

    `path` is the dotted path with real names (`workload.chat.max_tokens`), or "" for the whole file.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"`{path}`: {message}" if path else message)
        self.path = path


class DatasetError(UsageError):
    """Say why a dataset cannot be loaded, with the file and the line where there is one."""


class ClauseError(UsageError):
    """Say what is wrong with a clause, at which column (from 1), and what is allowed there."""

    def __init__(self, text: str, column: int, message: str) -> None:
        super().__init__(f"{message} (column {column})\n  {text}\n  {' ' * (column - 1)}^")
        self.text = text
        self.column = column
        self.message = message


class TargetError(R1perfError):
    """Say why the target cannot be used: refused, TLS, wrong key, unknown model."""


class TransportError(R1perfError):
    """Say how one HTTP exchange failed.

    `outcome` is the value of an `r1perf.result.Outcome` (`connect_error`, `timeout`, `stream_broken`); `reason` a short
    stable word (`refused`, `dns`, `tls`, `stale_connection`, `first_chunk`, `between_chunks`, `total`, `eof`, `reset`).
    """

    def __init__(self, outcome: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.reason = reason


class ArchiveError(R1perfError):
    """Say why a run archive cannot be written or read."""


class WorkerError(R1perfError):
    """Say that a worker process ended, or answered what it must not."""


class DatabaseError(R1perfError):
    """Say why a database did not do what it was asked.

    `status` is the HTTP status of its answer, None where none came; `says` the server's own words; `retry_after_s` how long it
    asks to be left alone.
    """

    def __init__(self, message: str, *, says: str = "", status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.says = says
        self.status = status
        self.retry_after_s = retry_after_s
