"""Files that are damaged, newer or something else are refused in words that help."""

import json

import pytest
import torch
from safetensors.torch import save_file

import felbo
from felbo._container import read, write
from felbo.saving import FORMAT, SavedFileError


@pytest.fixture
def path(tmp_path):
    return felbo.save(felbo.MAP(felbo.networks.mlp(2, (4,), 3)), tmp_path / "model.safetensors")


def test_values_and_types_come_back(tmp_path):
    tensors = {
        "a": torch.randn(2, 3).T,
        "b": torch.tensor(True),
        "c": torch.arange(4, dtype=torch.uint8),
        "d": torch.randn(3).to(torch.bfloat16),
        "e": torch.empty(0, 4),
    }
    write(tmp_path / "file", {"name": "ü"}, tensors)
    content, found = read(tmp_path / "file")
    assert content == {"format": FORMAT, "name": "ü"}
    assert all(torch.equal(found[n], t) and found[n].dtype == t.dtype for n, t in tensors.items())


def test_equal_content_gives_equal_files(tmp_path):
    tensors = {name: torch.ones(2) for name in "abcdef"}
    for place in range(4):
        write(tmp_path / str(place), {"b": 1, "a": 2}, tensors)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_every_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for position in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(SavedFileError):
            felbo.load(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_off(path, share):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(SavedFileError, match="damaged or incomplete"):
        felbo.load(path)


def test_a_newer_file(path):
    header = int.from_bytes(path.read_bytes()[:8], "little")
    whole = path.read_bytes()
    described = json.loads(whole[8 : 8 + header])
    entry = json.loads(described["__metadata__"]["felbo"])
    content = {**json.loads(entry["content"]), "format": FORMAT + 1}
    described["__metadata__"]["felbo"] = json.dumps({**entry, "content": json.dumps(content)})
    text = json.dumps(described).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + header :])
    with pytest.raises(SavedFileError, match=rf"format {FORMAT + 1} .* Upgrade felbo"):
        felbo.load(path)


def test_files_of_others(tmp_path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(SavedFileError, match="without felbo's description"):
        felbo.load(tmp_path / "other.safetensors")
    torch.save(felbo.networks.mlp(2, (4,), 3).state_dict(), tmp_path / "model.pt")
    with pytest.raises(SavedFileError, match="not written by felbo"):
        felbo.load(tmp_path / "model.pt")
    with pytest.raises(FileNotFoundError, match="no saved model"):
        felbo.load(tmp_path / "nothing")


def test_descriptions_reach_known_layers_only(tmp_path):
    network = {"layer": "os.system", "arguments": {"command": "true"}}
    model = {"kind": "MAP", "networks": [network], "evaluation_samples": 1}
    content = {"what": "model", "model": {**model, "in_evaluation": [], "frozen": []}}
    write(tmp_path / "file", content, {})
    with pytest.raises(SavedFileError, match=r"os\.system"):
        felbo.load(tmp_path / "file")
