"""Import Locust without letting it patch this process: it would break the locks of whatever else runs in it.

Processes that tests start are patched as ever.
"""

import os

_SKIP = "LOCUST_SKIP_MONKEY_PATCH"
_before = os.environ.get(_SKIP)
os.environ[_SKIP] = "1"
try:
    import locust
finally:
    if _before is None:
        del os.environ[_SKIP]

__all__ = ["locust"]
