"""Tests of this folder import Locust, which must leave the test process unpatched."""

import unpatched  # noqa: F401
