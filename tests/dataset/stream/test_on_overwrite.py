"""The words of onOverwrite are those of the documentation."""

from spark_arrow_ipc.dataset.stream.mode import OnOverwrite


def test_the_words():
    assert ["fail", "skip", "append"] == list(OnOverwrite)
