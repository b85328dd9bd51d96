"""Every dataset that a scenario can name: the union is the registry."""

from r1perf.datasets.aime import Aime
from r1perf.datasets.chat import Chat
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.synthetic import Synthetic

AnyDataset = Aime | Chat | Prompts | Synthetic
"""What `dataset = { kind = "..." }` decodes to."""
