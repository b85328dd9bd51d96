"""Link the page from Locust's own UI, and fit its form to r1perf."""

import flask
from markupsafe import escape

from r1perf.arrivals import AnyArrivals, Closed, Stages

TITLE = "R1 metrics"


def tab() -> dict[str, str]:
    """Return the tab for Locust's `template_args["extended_tabs"]`: Locust draws it, our script leads from it to the page."""
    return {"title": TITLE, "key": "r1perf"}


def rate(arrivals: AnyArrivals | None) -> str:
    """Say what arrivals the scenario itself has; nothing of a closed loop, whose users and spawn rate the form has."""
    if arrivals is None or isinstance(arrivals, Closed):
        return ""
    return ", ".join(stage.says() for stage in arrivals.stages) if isinstance(arrivals, Stages) else arrivals.says()


def linked(response: flask.Response, page: str, arrivals: str) -> flask.Response:
    """Add our script to Locust's page, before Locust's own runs; `page` is where ours is, `arrivals` what the form is to tell."""
    if response.mimetype == "text/html" and not response.is_streamed:
        body = response.get_data(as_text=True)
        if "window.templateArgs" in body and "</body>" in body:
            told = f'data-page="{escape(page)}" data-title="{escape(TITLE)}" data-arrivals="{escape(arrivals)}"'
            response.set_data(body.replace("</body>", f'<script src="{escape(page)}/static/link.js" {told}></script></body>'))
    return response
