"""Choices that never change."""

from __future__ import annotations

from agentlens.datasets.draws import Draws


def test_a_path_names_the_same_choices_for_ever() -> None:
    """These numbers are part of the shipped data: another Python or release must draw them too."""
    draws = Draws(7, "code", 1)
    assert [draws.below(1000) for _ in range(4)] == [23, 198, 226, 658]
    assert Draws(7, "code", 1).uuid() == "033ae1fb-2e20-4172-a71e-37a9c07a645d"


def test_a_child_stream_does_not_depend_on_what_was_drawn_before() -> None:
    """One more draw in one place moves nothing in another."""
    first, second = Draws(1), Draws(1)
    first.below(10)
    assert first.child("x").hex(8) == second.child("x").hex(8)


def test_shuffling_keeps_every_value() -> None:
    """A shuffled list is a permutation."""
    assert sorted(Draws(3).shuffled(range(20))) == list(range(20))
    assert len(set(Draws(3).several("abcdef", 3))) == 3


def test_between_includes_both_ends() -> None:
    """All values of a small range come, and no other."""
    draws = Draws(5)
    assert {draws.between(2, 4) for _ in range(100)} == {2, 3, 4}
