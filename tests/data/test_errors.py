import pickle

import pytest

from felbo.data import CorruptDataError, DownloadError, MissingDataError


@pytest.mark.parametrize(
    "error",
    [
        CorruptDataError("a/file", expected="this", came="that", remedy="Do so."),
        MissingDataError("not there"),
        DownloadError("no answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_reach_the_caller_from_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
