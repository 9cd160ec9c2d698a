"""What is refused under the settings of a session."""

import pytest

from spark_arrow_ipc.dataset.predicate import (
    ANSI,
    CASE,
    DATETIME_STRINGS,
    DOUBLE_QUOTES,
    ESCAPES,
    SETTINGS,
    TIMESTAMP_TYPE,
    check_settings,
)
from spark_arrow_ipc.errors import OptionError

# The setting that was noted, those of the session, and what the error says.
UNDER = [
    (ANSI, {ANSI: "false"}, f"{ANSI}=false"),
    (ANSI, {ANSI: "FALSE"}, f"{ANSI}=FALSE"),
    (ANSI, {ANSI: "true"}, None),
    (ANSI, {}, "does not tell its tasks the settings"),
    (ESCAPES, {ESCAPES: "true"}, "[the part]"),
    (ESCAPES, {ANSI: "false", ESCAPES: "false"}, None),
    (DOUBLE_QUOTES, {ANSI: "true", DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    (DOUBLE_QUOTES, {DOUBLE_QUOTES: "true"}, DOUBLE_QUOTES),
    (DOUBLE_QUOTES, {ANSI: "false", DOUBLE_QUOTES: "true"}, None),
    (DATETIME_STRINGS, {ANSI: "false", DATETIME_STRINGS: "true"}, DATETIME_STRINGS),
    (DATETIME_STRINGS, {ANSI: "true", DATETIME_STRINGS: "true"}, None),
    (DATETIME_STRINGS, {ANSI: "true"}, None),
    (CASE, {CASE: "true"}, CASE),
    (CASE, {}, None),
    (TIMESTAMP_TYPE, {TIMESTAMP_TYPE: "timestamp_ltz"}, None),
    (TIMESTAMP_TYPE, {TIMESTAMP_TYPE: "TIMESTAMP_NTZ"}, "TIMESTAMP_LTZ '...'"),
]


@pytest.mark.parametrize(("noted", "session", "said"), UNDER)
def test_a_setting_that_is_not_spark_s_own_is_refused_by_its_name(noted, session, said):
    """One that is not known is refused as well, unless Spark could only refuse."""
    if said is None:
        check_settings({noted: "the part"}, session.get)
        return
    with pytest.raises(OptionError) as caught:
        check_settings({noted: "the part"}, session.get)
    assert said in str(caught.value)


def test_a_predicate_that_notes_nothing_is_answered_in_every_session():
    check_settings({}, dict.fromkeys(SETTINGS, "other").get)


def test_a_long_part_is_shown_in_part():
    with pytest.raises(OptionError) as caught:
        check_settings({ANSI: "x" * 10_000}, {ANSI: "false"}.get)
    assert len(str(caught.value)) < 600
