"""Serve the page, its files and its one JSON endpoint, as a Blueprint in Locust's web UI."""

from collections.abc import Callable
from typing import Any

import flask
import msgspec

from r1perf.swarm.page.history import WIDTHS, History
from r1perf.swarm.page.state import Kept

POLICY = "default-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'self'; object-src 'none'"
"""Everything comes from here: no other host, no inline script, and no page of others may frame it."""

Wrap = Callable[[Callable[[], Any]], Callable[[], Any]]


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser asks for: the points that changed after revision `since` of run `run`, and the figures of a stage."""

    run: str = ""
    since: int = 0
    width: int = 1
    workload: str | None = None
    stage: str | None = None


def blueprint(
    prefix: str,
    history: History,
    kept: Kept,
    phase: Callable[[], object],
    stages: Callable[[], set[str]],
    wrap: Wrap,
    acts: dict[str, Callable[[str], str | None]],
) -> flask.Blueprint:
    """Make the routes under `prefix`; `phase` tells states apart that must not be shown for each other, `stages` names the run's;
    `wrap` asks for a login where Locust has one.

    `acts` are what may be asked for by POST, by name: each takes the form's `value` and returns what is wrong with it.
    """
    made = flask.Blueprint(
        "r1perf", __name__, url_prefix=prefix, template_folder="templates", static_folder="static", static_url_path="/static"
    )

    def page() -> flask.Response:
        response = flask.make_response(flask.render_template("r1perf/page.html"))
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-store"
        return response

    def data() -> flask.Response:
        try:
            asked = msgspec.convert({key: value for key, value in flask.request.args.items() if value}, _Asked, strict=False)
        except msgspec.ValidationError as error:
            return _plain(f"{error}\n", 400)
        run = history.run
        if asked.width not in WIDTHS:
            return _plain(f"width is one of {', '.join(map(str, WIDTHS))}\n", 400)
        if run is None or run.run_id != asked.run:
            asked = _Asked(width=asked.width)
        elif asked.stage is not None and asked.stage not in stages():
            return _plain("no such stage\n", 400)
        body = {
            "points": history.points(asked.width, asked.workload, asked.since),
            "state": msgspec.Raw(kept.encoded(asked.stage, (phase(), run and run.run_id))),
        }
        response = flask.Response(msgspec.json.encode(body), mimetype="application/json")
        response.headers["Cache-Control"] = "no-store"
        return response

    def act() -> flask.Response:
        name = flask.request.form.get("act", "")
        if name not in acts:
            return _plain(f"act is one of {', '.join(acts)}\n", 400)
        wrong = acts[name](flask.request.form.get("value", ""))
        return _plain(f"{wrong or 'ok'}\n", 409 if wrong else 202)

    made.add_url_rule("", "page", wrap(page))
    made.add_url_rule("/data", "data", wrap(data))
    made.add_url_rule("/act", "act", wrap(act), methods=["POST"])
    return made


def _plain(text: str, code: int) -> flask.Response:
    return flask.Response(text, status=code, mimetype="text/plain")
