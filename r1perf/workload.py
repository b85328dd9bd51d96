"""One kind of traffic of a run: what is asked, how, and its share of the mix."""

from typing import Annotated, Any

import msgspec

from r1perf.arrivals import AnyStage
from r1perf.datasets.aime import ROOM, TEMPERATURE, TOP_P, Aime
from r1perf.datasets.registry import AnyDataset
from r1perf.target import Sampling
from r1perf.units import Tokens


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dataset, how it is asked, and how often: a share of the run's arrivals, or arrivals of its own.

    `weight` is a share of conversations, 1 where neither it nor `arrivals` is given. `max_tokens` bounds every answer
    (a turn's own bound comes first). `headers` and `extra_body` are added to the target's, and win where both have a key;
    `model` stands in for the target's. For AIME problems the published ones stand in for `max_tokens` and `sampling` (`filled`).
    """

    dataset: AnyDataset
    weight: Annotated[float, msgspec.Meta(ge=0)] | None = None
    arrivals: AnyStage | None = None
    max_tokens: Tokens | None = None
    sampling: Sampling = Sampling()
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    model: str | None = None

    def filled(self) -> "Workload":
        """Return it with what its kind of dataset is asked with, where it does not say.

        AIME problems are asked as their model's card says; `raw` ones as vLLM's benchmark does, which sends nothing of it.
        """
        if not isinstance(self.dataset, Aime) or self.dataset.raw:
            return self
        sampling = msgspec.structs.replace(
            self.sampling,
            temperature=TEMPERATURE if self.sampling.temperature is None else self.sampling.temperature,
            top_p=TOP_P if self.sampling.top_p is None else self.sampling.top_p,
        )
        return msgspec.structs.replace(self, sampling=sampling, max_tokens=self.max_tokens or ROOM)

    @property
    def share(self) -> float | None:
        """Return the weight in the mix; None where the workload has arrivals of its own."""
        return None if self.arrivals is not None else 1.0 if self.weight is None else self.weight
