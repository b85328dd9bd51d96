"""Give the special functions of scipy, loaded when the first verdict needs them: a run without an SLA never pays for them."""

import functools
import importlib

from r1perf.errors import UsageError


@functools.cache
def _module() -> object:
    try:
        return importlib.import_module("scipy.special")
    except ImportError as error:
        raise UsageError("an SLA needs scipy, which is not installed; allowed: pip install scipy") from error


def require() -> None:
    """Fail before a run when its SLA could not be judged after it; raises UsageError."""
    _module()


def _call(name: str, *args: float) -> float:
    return float(getattr(_module(), name)(*args))


def beta_cdf(a: float, b: float, x: float) -> float:
    """Return P(B <= x) of a Beta(a, b) variable; a and b may be fractions."""
    return _call("betainc", a, b, x)


def beta_quantile(a: float, b: float, p: float) -> float:
    """Return the p-quantile of a Beta(a, b) variable."""
    return _call("betaincinv", a, b, p)


def normal_cdf(z: float) -> float:
    """Return P(Z <= z) of a standard normal variable."""
    return _call("ndtr", z)


def normal_quantile(p: float) -> float:
    """Return the p-quantile of a standard normal variable."""
    return _call("ndtri", p)


def t_cdf(df: float, t: float) -> float:
    """Return P(T <= t) of Student's t with df degrees of freedom."""
    return _call("stdtr", df, t)


def t_quantile(df: float, p: float) -> float:
    """Return the p-quantile of Student's t with df degrees of freedom."""
    return _call("stdtrit", df, p)
