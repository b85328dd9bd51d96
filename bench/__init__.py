"""Measure r1perf itself: `make bench`. Timings are noisy, so every figure is a ratio or a difference within one run."""
