"""The tables: one file each, with their columns, types and closed vocabularies."""
