"""The table of docs/mistakes.md is what the screen shows, and each text is short."""

import mistakes
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mistakes")


MADE = [name for name, mistake in mistakes.MISTAKES.items() if not mistake.connect_only]


@pytest.fixture(scope="module")
def texts(spark, folder):
    return mistakes.make(spark, folder, streams=False)


@pytest.mark.parametrize("name", MADE)
def test_a_mistake_is_said_in_one_sentence(texts, folder, name):
    """In front of the sentence are only the name of Spark's exception and Spark's own condition."""
    mistakes.check(name, texts[name], folder)


@pytest.mark.exhaustive
def test_a_stream_says_it_too(spark, tmp_path):
    """Without a schema of the person's, and with one, where Spark asks for nothing before the query runs."""
    for name, ways in mistakes.make(spark, tmp_path).items():
        mistakes.check(name, ways, tmp_path)


def test_the_table_has_no_other_rows():
    rows = mistakes.PAGE.read_text(encoding="utf-8").split(mistakes.BEGIN)[1].split(mistakes.END)[0].splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == list(mistakes.MISTAKES)
    assert len(rows) - 2 >= 25
