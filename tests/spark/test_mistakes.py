"""The record of mistakes is what the screen shows, each text is short, and the table of docs/runbook.md is of the record."""

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


def test_the_record_has_no_other_rows():
    rows = mistakes.table_of(mistakes.RECORD.read_text(encoding="utf-8"))
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(mistakes.MISTAKES)
    assert len(rows) >= 25


def test_the_page_has_the_mistakes_of_the_record():
    page = mistakes.PAGE.read_text(encoding="utf-8")
    assert page == mistakes.page_of(page, mistakes.RECORD.read_text(encoding="utf-8"))
