"""Calibration: labels, splits, sweep, certificate, limits, profile."""
