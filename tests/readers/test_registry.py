"""Formats are loaded when they are wanted, and each is found where it says it is."""

from __future__ import annotations

import json
import subprocess
import sys

from agentlens.readers import registry


def _loaded(code: str) -> set[str]:
    """Reader modules that a fresh process has loaded after running ``code``."""
    told = (
        f"import json, sys; {code}; print(json.dumps([m for m in sys.modules if 'agentlens.readers.' in m]))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return {name.rsplit(".", 1)[-1] for name in json.loads(done.stdout)}


def test_a_lake_is_opened_without_loading_a_format() -> None:
    """Whoever only analyses a lake does not wait for the readers of exports."""
    assert _loaded("import agentlens.lake").isdisjoint({"otlp", "codex", "langfuse", "harness"})


def test_a_reading_process_loads_the_one_format_it_needs() -> None:
    """The format of a range of a large file is known to whoever cut it."""
    home = registry.named("otlp-json").read.__module__
    code = f"from agentlens.readers import registry; registry.named('otlp-json', {home!r})"
    loaded = _loaded(code)
    assert "otlp" in loaded
    assert loaded.isdisjoint({"codex", "langfuse", "harness"})


def test_every_format_is_in_the_module_of_its_reading_function() -> None:
    """So that its name and that module are enough to find it again in another process."""
    for found in registry.FORMATS:
        assert found in registry._in(found.read.__module__), found.name


def test_a_wrong_home_does_not_hide_a_format() -> None:
    """A module without formats is passed over."""
    assert registry.named("otlp-json", "agentlens.readers.decode").name == "otlp-json"
