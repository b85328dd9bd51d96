"""Link the page from Locust's own UI: a tab among its tabs, and a line above its form."""

import flask

TITLE = "R1 metrics"

KEY = "r1perf"


def tab() -> dict[str, str]:
    """Return the tab for Locust's `template_args["extended_tabs"]`: Locust draws it, our script leads from it to the page."""
    return {"title": TITLE, "key": KEY}


def linked(response: flask.Response, page: str) -> flask.Response:
    """Add our script to Locust's page; `page` is where ours is."""
    if response.mimetype == "text/html" and not response.is_streamed:
        body = response.get_data(as_text=True)
        script = f'<script src="{page}/static/link.js" data-page="{page}" data-title="{TITLE}" defer></script>'
        if "window.templateArgs" in body and "</body>" in body:
            response.set_data(body.replace("</body>", f"{script}</body>"))
    return response
