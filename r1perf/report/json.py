"""Write a run as JSON: the same bytes as its `run.json`."""

from r1perf.summary import Document
from r1perf.summary.document import encode


def render_json(document: Document) -> str:
    """Return the text of `run.json`, ending with a newline."""
    return encode(document).decode()
