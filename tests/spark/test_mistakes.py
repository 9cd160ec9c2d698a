"""The table of docs/mistakes.md is what the screen shows, and each text is short."""

import mistakes
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mistakes")


@pytest.fixture(scope="module")
def texts(spark, folder):
    return mistakes.make(spark, folder)


@pytest.mark.parametrize("name", [name for name, mistake in mistakes.MISTAKES.items() if not mistake.connect_only])
def test_a_mistake_is_said_in_one_sentence(texts, folder, name):
    """In front of the sentence are only the name of Spark's exception and Spark's own condition."""
    assert "Traceback" not in texts[name]
    assert mistakes.characters(texts[name]) <= mistakes.MOST_CHARACTERS
    assert mistakes.row(name, texts[name], folder) in mistakes.PAGE.read_text(encoding="utf-8"), (
        "python tests/mistakes.py writes the table"
    )


def test_the_table_has_no_other_rows():
    rows = mistakes.PAGE.read_text(encoding="utf-8").split(mistakes.BEGIN)[1].split(mistakes.END)[0].splitlines()
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == list(mistakes.MISTAKES)
    assert len(rows) - 2 >= 25
