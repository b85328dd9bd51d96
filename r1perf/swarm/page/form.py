"""Take our options from Locust's form ourselves: Locust loses them on the way.

Its script turns `r1_rate` into `r1Rate` and that into `r_1rate`, which is no option, so it is ignored; and an empty list, as
`r1_set` is, it takes for one of numbers. What is wrong with a scenario is said in the form, before anything starts.
"""

import re
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import flask
from werkzeug.datastructures import ImmutableMultiDict, MultiDict

from r1perf.errors import R1perfError
from r1perf.swarm.options import settings

FIELDS = ("r1_scenario", "r1_model", "r1_rate", "r1_duration", "r1_set")
"""The options that the form has."""

OURS = re.compile(r"r_?1[_a-z]")

View = Callable[[], Any]
Form = MultiDict[str, str]


def sent(dest: str) -> str:
    """Return the name under which Locust's script sends an option."""
    camel = re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), dest)
    return re.sub(r"([a-z0-9])([A-Z0-9])", r"\1_\2", camel).lower()


def take(form: Form, options: Namespace) -> dict[str, object]:
    """Return what the form says of our options, by their own names; a list's parts are settings."""
    found: dict[str, object] = {}
    for dest in FIELDS:
        name = next((name for name in (dest, sent(dest)) if name in form), None)
        if name is not None:
            text = form[name].strip()
            listed = isinstance(getattr(options, dest), list)
            found[dest] = settings(text) if listed else text
    return found


def fitted(view: View, options: Namespace, check: Callable[[Namespace, str | None], object]) -> View:
    """Return Locust's view that starts a test, for our options; `check(options, host)` raises an R1perfError for what is wrong."""

    def start() -> Any:
        form = flask.request.form
        wanted = Namespace(**vars(options) | take(form, options))
        host = form.get("host", options.host)
        try:
            check(wanted, host)
        except R1perfError as error:
            return flask.jsonify({"success": False, "message": str(error), "host": host})
        vars(options).update(take(form, options))
        # Nothing of ours is left for Locust; options that the form does not show cannot be sent to it.
        rest = [(name, value) for name, value in form.items(multi=True) if not OURS.match(name)]
        flask.request.form = ImmutableMultiDict(rest)
        return view()

    return start
