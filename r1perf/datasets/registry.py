"""Every dataset that a scenario can name: the union is the registry."""

from r1perf.datasets.aime import Aime
from r1perf.datasets.chat import Chat
from r1perf.datasets.openai import OpenAI
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.synthetic import Synthetic
from r1perf.datasets.trace import TraceLengths

AnyDataset = Aime | Chat | OpenAI | Prompts | Synthetic | TraceLengths
"""What `dataset = { kind = "..." }` decodes to."""
