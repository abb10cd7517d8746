from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tuner.errors import DatabaseError
from tuner.store.location import (
    default_artifacts_root,
    default_database_url,
    home_directory,
    prepare_state_directory,
    state_directory,
)

HOME = Path("/home/ann")


def test_the_xdg_state_directory_is_used() -> None:
    assert state_directory({"XDG_STATE_HOME": "/state"}, HOME) == Path("/state/servetune")


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_without_a_usable_one_it_is_under_home(environ: dict[str, str]) -> None:
    assert state_directory(environ, HOME) == HOME / ".local" / "state" / "servetune"


def test_without_any_home_a_directory_is_asked_for() -> None:
    assert state_directory({"XDG_STATE_HOME": "/state"}, None) == Path("/state/servetune")
    with pytest.raises(DatabaseError) as caught:
        state_directory({}, None)
    assert "SERVETUNE_STATE_DIR" in (caught.value.hint or "")


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert home_directory() is None


def test_it_is_made_for_its_owner_only(tmp_path: Path) -> None:
    directory = prepare_state_directory(tmp_path / "a" / "servetune")

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_an_existing_one_keeps_its_rights(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    assert prepare_state_directory(tmp_path) == tmp_path
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_one_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")

    with pytest.raises(DatabaseError) as caught:
        prepare_state_directory(blocker / "servetune")
    assert "SERVETUNE_STATE_DIR" in str(caught.value)


def test_database_and_artefacts_are_beside_each_other(tmp_path: Path) -> None:
    assert default_database_url(tmp_path).sqlite_path == tmp_path / "servetune.db"
    assert default_artifacts_root(tmp_path).parent == tmp_path
    assert list(tmp_path.iterdir()) == []
