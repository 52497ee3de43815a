"""Seeded generators that return data and truth."""
