"""What is known of a workload's prompts before its run, and stated in its report."""

import msgspec

from r1perf.datasets.repeats import Repeats
from r1perf.datasets.tokens import Calibration


class Prompting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one workload asks: what is done about prefix caches, how often prompts repeat, how their lengths are counted.

    `calibration` is there where lengths were fitted to the server's own counts before the run. `lengthened` is the share of the
    planned prompts that are asked to be shorter than the chat template and one word, and are made as long as these.
    """

    cache: str = "natural"
    cache_control: bool = False
    repeats: Repeats | None = None
    calibration: Calibration | None = None
    lengthened: float = 0.0
