"""Readers of trace exports: one format a file."""
