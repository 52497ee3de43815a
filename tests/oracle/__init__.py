"""The literal loop detector: every rule of the contract as its sentence, slow and without tricks.

It shares no code with the engine. Nothing here is vectorised, cumulative or clever: a longest suffix is found
by trying every suffix, an unknown value by looking at every pair of values. The engine is compared with it.
"""
