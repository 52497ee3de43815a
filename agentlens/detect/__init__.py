"""Detectors: pure functions from lazy frames to lazy frames."""
