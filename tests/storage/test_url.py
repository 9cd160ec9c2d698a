"""URLs as all calls write them."""

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.paths import clean_url, split_url, url_scheme


def clean(path, may_name=lambda _: True):
    return clean_url(path, authority="a host", may_name=may_name)


@pytest.mark.parametrize(
    ("given", "path", "root", "key"),
    [
        ("HF://h", "hf://h", "hf://h", ""),
        ("hf://h//a///b/", "hf://h/a/b", "hf://h", "a/b"),
        ("hf://me@h/a%2F#c?d", "hf://me@h/a%2F#c?d", "hf://me@h", "a%2F#c?d"),
    ],
)
def test_a_url_is_written_in_one_way(given, path, root, key):
    assert path == clean(given) == clean(path)
    assert (root, key) == split_url(path)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("/a", UnsupportedError, "read each and unite them with union"),
        ("hf:///a", OptionError, "expected a host after hf://"),
        ("hf://h/../a", OptionError, r"without \. and \.\."),
        ("hf://h/\0", OptionError, "a NUL"),
        ("hf://h/" + "a" * 70_000, OptionError, "at most 65,536 characters"),
    ],
)
def test_what_is_no_url_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        clean(given)


def test_what_may_not_stand_before_an_at_is_not_shown():
    with pytest.raises(OptionError, match="holds a password or a key before @") as caught:
        clean("hf://me:hunter2@h/a", lambda user: ":" not in user)
    assert "hunter2" not in str(caught.value)


QUERIES = [
    "https://h/x.arrow?X-Amz-Signature=hunter2",
    "http://h?hunter2",
    "https://h/../x.arrow?sig=hunter2",
    "https:///x.arrow?sig=hunter2",
    "abfss://c@a.dfs.core.windows.net/x.arrow?sv=1&sig=hunter2",
    "s3://b/x.arrow?X-Amz-Security-Token=hunter2",
    "hf://h/x.arrow?access_token=hunter2",
]


@pytest.mark.parametrize("path", QUERIES)
def test_a_query_that_may_be_a_signature_is_refused_and_not_shown(path):
    with pytest.raises(OptionError, match=r"has a query \(\?... or #...\), as signed URLs have") as caught:
        clean(path)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("path", ["s3://b/part-?.arrow", "s3://b/a?b=c", "s3://b/token=x/a.arrow", "hf://h/?/k=1"])
def test_a_question_mark_is_a_pattern_or_a_character_elsewhere(path):
    assert path == clean(path)


@pytest.mark.parametrize(("path", "scheme"), [("HF://h", "hf"), ("hf:/h", None), ("/a", None), ("a=hf://b", None)])
def test_the_scheme_of_a_url(path, scheme):
    assert scheme == url_scheme(path)
