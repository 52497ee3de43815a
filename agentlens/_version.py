"""The version of the package, readable without importing anything."""

__version__ = "0.1.0"
