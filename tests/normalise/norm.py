"""Shared pieces of these tests."""

from __future__ import annotations

from agentlens.model.raw import ABSENT, RawEvent
from agentlens.normalise import Key, Normaliser, Tables

TABLES = Tables.load()
KEY = Key.public_demo()


def normaliser(**settings):
    return Normaliser(key=settings.pop("key", KEY), tables=settings.pop("tables", TABLES), **settings)


def frame(*events, made=None, **settings):
    made = made or normaliser(**settings)
    rows = [event if isinstance(event, RawEvent) else RawEvent(run_id="r", **event) for event in events]
    return made.frame(rows, source="log.jsonl", source_id="sid", reader="native", reader_rank=10)


def signature(tool, args=ABSENT, scope=None, tables=TABLES):
    return normaliser(tables=tables).call(tool, args, scope).signature


def fingerprint(result=ABSENT, tool="search", error_class=None, tables=TABLES):
    return normaliser(tables=tables).seen(tool, result, error_class).fingerprint


def facts(command, tool="Bash"):
    return normaliser().call(tool, {"command": command}).facts
