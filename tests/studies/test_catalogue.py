"""Every study has a name of its own and three sizes, and the command line knows it."""

import importlib
import pkgutil

from typer.testing import CliRunner

import felbo.studies
from felbo.cli import app
from felbo.paper.study import Study
from felbo.studies.catalogue import OWN, STUDIES


def test_every_study_of_the_room_is_listed():
    modules = [
        importlib.import_module(f"felbo.studies.{module.name}")
        for module in pkgutil.iter_modules(felbo.studies.__path__)
    ]
    made = {
        each.name for module in modules for each in vars(module).values() if type(each) is Study
    }
    assert made == set(OWN)
    assert set(OWN) < set(STUDIES)


def test_every_study_can_be_run_small_and_in_full():
    for study in OWN.values():
        assert list(study.presets) == ["smoke", "cpu", "paper"]
        assert all(cost > 0 for cost in study.models.values())


def test_the_command_line_knows_them():
    found = CliRunner().invoke(app, ["reproduce", "no-such-study"])
    assert found.exit_code == 2
    assert all(
        name in found.output for name in ("parts-elsewhere", "strengths", "finetune-cifar10")
    )
