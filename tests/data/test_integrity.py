import shutil

import pytest

from felbo.data import REGISTRY, FileState, verify
from felbo.data.registry import DataFile

from .stand_ins import lay_out, md5


def test_good_bad_and_missing_files_are_told_apart(tiny_mnist, tmp_path):
    info, contents = tiny_mnist
    damaged = "train-images-idx3-ubyte.gz"
    gone = "t10k-labels-idx1-ubyte.gz"
    wrong = contents[damaged][:-1]
    lay_out(tmp_path, info, {**contents, damaged: wrong})
    (tmp_path / "mnist" / gone).unlink()
    found = {report.path.name: report for report in verify("mnist", tmp_path)}
    assert list(found) == [file.name for file in info.files]
    assert found[damaged].state is FileState.BAD
    assert found[damaged].md5 == md5(wrong)
    assert found[damaged].expected_md5 == md5(contents[damaged])
    assert found[damaged].size == len(wrong)
    assert found[gone].state is FileState.MISSING
    assert found[gone].md5 is None
    others = [report.state for name, report in found.items() if name not in (damaged, gone)]
    assert others == [FileState.GOOD] * 2


def test_a_known_repackaging_is_accepted_and_nothing_else():
    file = DataFile("a", md5(b"published"), repackaged_md5=md5(b"repackaged"))
    assert file.accepts(md5(b"published"))
    assert file.accepts(md5(b"repackaged"))
    assert not file.accepts(md5(b"other"))
    assert not DataFile("a", md5(b"published")).accepts(md5(b"repackaged"))


@pytest.mark.parametrize("name", list(REGISTRY))
def test_published_files_verify(name, published, tmp_path):
    root = published(name, "test")
    states = {report.path.name: report.state for report in verify(name, root)}
    assert all(states[file.name] is FileState.GOOD for file in REGISTRY[name].test)
    assert FileState.BAD not in states.values()


def test_one_changed_byte_of_a_published_file_is_found(published, tmp_path):
    (tmp_path / "mnist").mkdir()
    source = published("mnist", "test") / "mnist" / "t10k-labels-idx1-ubyte.gz"
    copy = tmp_path / "mnist" / source.name
    shutil.copyfile(source, copy)
    content = bytearray(copy.read_bytes())
    content[100] ^= 1
    copy.write_bytes(content)
    states = {report.path.name: report.state for report in verify("mnist", tmp_path)}
    assert states[source.name] is FileState.BAD
