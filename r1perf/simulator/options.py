"""Hold what a simulator is started with, checked."""

import msgspec

from r1perf.errors import UsageError
from r1perf.simulator.dialects import DIALECTS
from r1perf.simulator.faults import Fault
from r1perf.simulator.profiles import PROFILES


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one simulator. The key that it asks for comes from the environment (`R1SIM_API_KEY`), never from here."""

    profile: str = "tiny"
    dialect: str = "vllm"
    host: str = "127.0.0.1"
    port: int = 8000
    models: tuple[str, ...] = ("deepseek-r1",)
    speed: float = 1.0
    seed: int = 0
    faults: tuple[tuple[Fault, float], ...] = ()
    accuracy: float | None = None
    tokens_per_chunk: int | None = None
    requests_per_minute: int | None = None
    max_concurrency: int | None = None
    truth: str | None = None
    truth_tokens: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    parent_pipe: int | None = None

    def checked(self) -> "Options":
        """Return these options; raises UsageError with one sentence where they can't be."""
        if self.profile not in PROFILES:
            raise UsageError(f'"{self.profile}" is not a profile; allowed are {", ".join(PROFILES)}')
        if self.dialect not in DIALECTS:
            raise UsageError(f'"{self.dialect}" is not a dialect; allowed are {", ".join(DIALECTS)}')
        if not 0 <= self.port <= 65_535:
            raise UsageError(f"{self.port} is not a port; allowed are 0 (any free one) to 65535")
        if not 0 < self.speed <= 1e6:
            raise UsageError(f"speed {self.speed:g} is not allowed; it is a factor above 0, up to 1000000")
        if self.accuracy is not None and not 0 <= self.accuracy <= 1:
            raise UsageError(f"accuracy {self.accuracy:g} is not allowed; it is a share from 0 to 1")
        if not self.models or not all(self.models):
            raise UsageError("a model needs a name")
        for name in ("tokens_per_chunk", "requests_per_minute", "max_concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} {value} is not allowed; it is a whole number above 0")
        if self.truth_tokens and self.truth is None:
            raise UsageError("--truth-tokens needs --truth FILE")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("TLS needs both a certificate and its key")
        return self
