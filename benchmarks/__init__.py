"""Benchmarks: what the speed promises are measured with. Never part of the tests."""
