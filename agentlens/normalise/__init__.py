"""Signatures, fingerprints, digests, versions: the floor where content ends."""
