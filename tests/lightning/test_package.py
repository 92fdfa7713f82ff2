"""Lightning is imported when it is used, under the name that the user has it by."""

import subprocess
import sys
from types import ModuleType

import pytest

from felbo.lightning import package


def test_lightning_is_imported_when_it_is_used():
    code = (
        "import sys, felbo, felbo.lightning\n"
        "names = {'lightning', 'pytorch_lightning', 'felbo.lightning.module'}\n"
        "assert not names & set(sys.modules), names & set(sys.modules)\n"
        "assert not hasattr(felbo.lightning, 'no_such_name')\n"
        "sys.modules['lightning'] = sys.modules['pytorch_lightning'] = None\n"
        "try:\n"
        "    felbo.lightning.FunctionSpaceModule\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "del sys.modules['lightning'], sys.modules['pytorch_lightning']\n"
        "felbo.lightning.FunctionSpaceModule\n"
        "assert 'pytorch_lightning' in sys.modules and 'torchvision' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "pip install 'felbo[lightning]'" in ended.stdout


@pytest.mark.parametrize(
    ("imported", "installed", "expected"),
    [
        ([], ["lightning", "pytorch_lightning"], "lightning.pytorch"),
        ([], ["pytorch_lightning"], "pytorch_lightning"),
        (["pytorch_lightning"], ["lightning", "pytorch_lightning"], "pytorch_lightning"),
        (["lightning.pytorch"], ["lightning", "pytorch_lightning"], "lightning.pytorch"),
    ],
)
def test_the_name_that_is_imported_already_comes_first(monkeypatch, imported, installed, expected):
    for name in package.NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in imported:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(package, "_installed", lambda name: name in installed)
    monkeypatch.setattr(package, "import_module", lambda name: name)
    assert package.lightning_package() == expected
