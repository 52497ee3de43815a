"""Adapters to an engine for more than one machine."""
