"""Tokens of a predicate, by Spark's lexical rules."""

import pytest

from spark_arrow_ipc.dataset.predicate.tokens import Tokens

TOKENS = [
    ("blanks", " \t\u00a0\n", []),
    ("words_and_names", "a `b``c` d1_é", [("word", "a"), ("name", "`b``c`"), ("word", "d1_é")]),
    ("numbers", "1 1.5e-3BD .5f 2L 1.", [("number", "1"), ("number", "1.5e-3BD"), ("number", ".5f"), ("number", "2L"), ("number", "1.")]),
    ("no_number", "1a", [("other", "1"), ("word", "a")]),
    ("strings", r"""'a\'b' "c" r'\' R"d" """, [("string", r"'a\'b'"), ("string", '"c"'), ("raw", r"r'\'"), ("raw", 'R"d"')]),
    ("binaries", "X'1f' x\"00\"", [("binary", "X'1f'"), ("binary", 'x"00"')]),
    ("symbols", "<=> <= >= <> != ==!", [("symbol", "<=>"), ("symbol", "<="), ("symbol", ">="), ("symbol", "<>"), ("symbol", "!="), ("symbol", "=="), ("symbol", "!")]),
    ("comments", "-- /*", [("comment", "--"), ("comment", "/*")]),
    ("not_closed", "'a", [("other", "'"), ("word", "a")]),
    ("others", "[?", [("other", "["), ("other", "?")]),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), [pytest.param(*case[1:], id=case[0]) for case in TOKENS])
def test_a_string_is_split_into_tokens(sql, expected):
    tokens, split = Tokens(sql), []
    while tokens.kind != "end":
        assert sql[tokens.start : tokens.stop] == tokens.token
        split.append((tokens.kind, tokens.token))
        tokens.advance()
    assert expected == split


def test_a_name_in_backticks_is_no_keyword():
    assert "AND" == Tokens("and").key
    assert "" == Tokens("`and`").key
    assert "" == Tokens("'and'").key
