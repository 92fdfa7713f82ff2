"""Writing in one move, also when something goes wrong, and folders refused beforehand."""

import os
from pathlib import Path

import pytest

from felbo._files import OutputFolderError, remove_parts, require_writable, write_atomically


def test_text_and_bytes_arrive_whole_and_alone(tmp_path):
    write_atomically(tmp_path / "new" / "a.txt", "β\n")
    write_atomically(tmp_path / "new" / "a.bin", b"\0\1")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "β\n".encode()
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"\0\1"
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a.bin", "a.txt"]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def power_cut(self, target):
        assert path.read_text() == "old"
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", power_cut)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_taken_away_by_another_process_is_written_again(tmp_path, monkeypatch):
    replace, calls = Path.replace, []

    def interfere(self, target):
        calls.append(self)
        if len(calls) == 1:
            remove_parts(tmp_path)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interfere)
    write_atomically(tmp_path / "cell.json", "{}")
    assert (tmp_path / "cell.json").read_text() == "{}"
    assert len(calls) == 2


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_atomically(tmp_path / "moved", "")
    assert (tmp_path / "moved").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_left_overs_are_removed_by_the_beginning_of_their_name(tmp_path):
    for name in ("map-0.json.12-ab.part", "map-0.12.part", "other.csv.part", "map-0.json"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path, "map")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["map-0.json", "other.csv.part"]
    remove_parts(tmp_path / "does not exist")


def test_a_folder_that_can_be_written_or_made_is_not_made_yet(tmp_path):
    require_writable(tmp_path)
    require_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", [(), ("deeper", "still")])
def test_a_file_in_the_way_is_named(tmp_path, below):
    (tmp_path / "results").write_text("")
    with pytest.raises(OutputFolderError, match=r"results is in the way and is no folder"):
        require_writable(tmp_path.joinpath("results", *below))


def test_a_link_to_nowhere_is_in_the_way(tmp_path):
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    with pytest.raises(OutputFolderError, match="is in the way"):
        require_writable(tmp_path / "results")


def test_no_permission_is_said(tmp_path, monkeypatch):
    # Asked of the system, since the superuser of a container may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(OutputFolderError, match="no permission to write in"):
        require_writable(tmp_path / "results")
