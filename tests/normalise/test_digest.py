"""Keys: where they come from, what they refuse, what they never show."""

from __future__ import annotations

import pickle
import stat

import pytest

from agentlens.errors import InputError, SettingsError
from agentlens.normalise.digest import EVIDENCE, Key

GIVEN = "a key of more than sixteen bytes"


def test_digest_is_32_hex_and_depends_on_key_and_person():
    """Two keys, or two kinds of digest, never agree on the same bytes."""
    one, two = Key(b"0" * 16), Key(b"1" * 16)
    digests = {one.digest(b"x"), two.digest(b"x"), one.digest(b"x", EVIDENCE), one.digest(b"y")}
    assert len(digests) == 4
    assert all(len(d) == 32 and int(d, 16) >= 0 for d in digests)


def test_key_id_names_the_key_and_is_no_digest_of_content():
    """The id is stable, differs by key, and equals no digest of the empty text."""
    assert Key(b"0" * 16).key_id == Key(b"0" * 16).key_id != Key(b"1" * 16).key_id
    assert not Key(b"0" * 16).digest(b"").startswith(Key(b"0" * 16).key_id)


def test_secret_is_in_no_repr():
    """Printing a key shows where it came from only."""
    assert "secretsecret" not in repr(Key(b"secretsecretsecret"))


def test_short_key_is_refused():
    """Fifteen bytes could be guessed."""
    with pytest.raises(SettingsError, match="at least 16"):
        Key(b"0" * 15)


def test_long_key_counts_in_full():
    """Keys longer than blake2b takes differ where only their ends differ."""
    assert Key(b"0" * 100 + b"a").key_id != Key(b"0" * 100 + b"b").key_id


def test_file_goes_before_environment(tmp_path, monkeypatch):
    """A key file that is named wins; white space around the key is no part of it."""
    path = tmp_path / "k"
    path.write_text(GIVEN + "\n")
    monkeypatch.setenv("AGENTLENS_KEY", "another key of sixteen bytes")
    assert Key.load(path).key_id == Key(GIVEN.encode()).key_id
    assert Key.load(config_dir=tmp_path / "none").key_id == Key(b"another key of sixteen bytes").key_id
    assert not (tmp_path / "none").exists()


def test_key_is_made_once_for_its_owner_only(tmp_path, monkeypatch):
    """Without file and variable a key is made, said so, kept with mode 0600 and found again."""
    monkeypatch.delenv("AGENTLENS_KEY", raising=False)
    first = Key.load(config_dir=tmp_path / "conf")
    again = Key.load(config_dir=tmp_path / "conf")
    assert (first.made, again.made) == (True, False)
    assert first.key_id == again.key_id
    assert stat.S_IMODE((tmp_path / "conf" / "key").stat().st_mode) == 0o600
    assert [p.name for p in (tmp_path / "conf").iterdir()] == ["key"]


def test_config_folder_follows_the_platform(tmp_path, monkeypatch):
    """XDG_CONFIG_HOME is respected."""
    monkeypatch.delenv("AGENTLENS_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Key.load().made
    assert (tmp_path / "agentlens" / "key").is_file()


def test_unreadable_file_is_one_clear_line(tmp_path):
    """A missing key file is an input error that names it."""
    with pytest.raises(InputError, match="nothing-here"):
        Key.load(tmp_path / "nothing-here")


def test_folder_that_cannot_be_made_is_one_clear_line(tmp_path, monkeypatch):
    """Where no key can be made the message says what to give instead."""
    monkeypatch.delenv("AGENTLENS_KEY", raising=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--key-file"):
        Key.load(config_dir=tmp_path / "file" / "conf")


def test_key_travels_to_workers():
    """A pickled key digests the same."""
    key = Key(b"0" * 16)
    assert pickle.loads(pickle.dumps(key)).digest(b"x") == key.digest(b"x")
