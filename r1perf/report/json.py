"""Write a run as JSON: the same bytes as its `run.json`."""

from collections.abc import Iterable

from r1perf.summary import Document
from r1perf.summary.document import encode


def render_json(document: Document) -> str:
    """Return the text of `run.json`, ending with a newline."""
    return encode(document).decode()


def render_json_array(documents: Iterable[Document]) -> str:
    """Return an array of such texts, ending with a newline: what several runs are printed as, however many there are."""
    return "[\n" + ",\n".join(render_json(document).rstrip("\n") for document in documents) + "\n]\n"
