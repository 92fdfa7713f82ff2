import io
import tarfile

import pytest

from felbo.data import CorruptDataError
from felbo.data.archive import extract_expected
from felbo.data.registry import DataFile

from .stand_ins import md5

WANTED = {"one": b"first" * 1000, "two": b"second"}
FILES = [DataFile(name, md5(content)) for name, content in WANTED.items()]


def member(name, content=b"", **attributes):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in attributes.items():
        setattr(info, key, value)
    return info, content


def pack(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return path


def good_members():
    return [member(f"sets/{name}", content) for name, content in WANTED.items()]


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_expected_members_are_taken_and_all_others_passed_over(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    archive = pack(
        root / "a.tar.gz",
        member("sets", type=tarfile.DIRTYPE),
        member("sets/readme.html", b"hello"),
        member("../escaped", b"x"),
        member(str(tmp_path / "absolute"), b"x"),
        member("sets/../../climbed", b"x"),
        member("sets/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        *good_members(),
    )
    extract_expected(archive, root / "sets", FILES)
    assert everything_below(tmp_path) == ["root/a.tar.gz", "root/sets/one", "root/sets/two"]
    assert {name: (root / "sets" / name).read_bytes() for name in WANTED} == WANTED


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_under_an_expected_name_does_not_count(kind, tmp_path):
    link = member("sets/one", type=kind, linkname="/etc/passwd")
    archive = pack(tmp_path / "a.tar.gz", link, good_members()[1])
    with pytest.raises(CorruptDataError, match="the members sets/one, but got"):
        extract_expected(archive, tmp_path / "sets", FILES)
    assert not (tmp_path / "sets" / "one").is_symlink()


def test_a_member_with_another_hash_is_not_put_in_place(tmp_path):
    archive = pack(tmp_path / "a.tar.gz", member("sets/one", b"forged"), good_members()[1])
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "one").write_bytes(b"what was there")
    with pytest.raises(CorruptDataError, match=rf"sets/one: expected md5 {FILES[0].md5}.*Do so\."):
        extract_expected(archive, tmp_path / "sets", FILES, remedy="Do so.")
    assert (tmp_path / "sets" / "one").read_bytes() == b"what was there"
    assert everything_below(tmp_path / "sets") == ["one"]


def test_a_member_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("felbo.data.archive.LARGEST", 1000)
    archive = pack(tmp_path / "a.tar.gz", member("sets/one", bytes(5000)), good_members()[1])
    with pytest.raises(CorruptDataError, match="at most 1,000 bytes"):
        extract_expected(archive, tmp_path / "sets", FILES)
    assert not (tmp_path / "sets" / "one").exists()


@pytest.mark.parametrize("kept", [0, 5, 60, -20])
def test_a_truncated_archive_is_refused_and_leaves_no_parts(tmp_path, kept):
    archive = pack(tmp_path / "a.tar.gz", *good_members())
    archive.write_bytes(archive.read_bytes()[:kept])
    with pytest.raises(CorruptDataError, match=r"a\.tar\.gz"):
        extract_expected(archive, tmp_path / "sets", FILES)
    assert not [name for name in everything_below(tmp_path) if name.endswith(".part")]


def test_something_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(CorruptDataError, match=r"readable tar\.gz"):
        extract_expected(tmp_path / "a.tar.gz", tmp_path / "sets", FILES)


def test_a_link_under_the_name_of_the_part_is_not_followed(tmp_path):
    archive = pack(tmp_path / "a.tar.gz", *good_members())
    elsewhere = tmp_path / "precious"
    elsewhere.write_bytes(b"untouched")
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "one.part").symlink_to(elsewhere)
    (tmp_path / "sets" / "two.part").symlink_to(tmp_path / "made through a dangling link")
    extract_expected(archive, tmp_path / "sets", FILES)
    assert elsewhere.read_bytes() == b"untouched"
    assert everything_below(tmp_path) == ["a.tar.gz", "precious", "sets/one", "sets/two"]
    assert not (tmp_path / "sets" / "one").is_symlink()
