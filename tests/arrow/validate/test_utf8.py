"""Proving UTF-8: exactly what Python's strict decoder accepts, and the same first bad byte."""

import itertools

import numpy as np
import pytest

from spark_arrow_ipc.arrow.validate import text as utf8
from spark_arrow_ipc.arrow.validate.text import any_continues, continues, invalid_utf8

# The first and last byte of every row and column of Unicode's table 3-7, and their neighbours.
BOUNDS = bytes.fromhex("00 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")

SCRIPTS = {
    "two bytes": "Привет",
    "two bytes and ASCII": "Crème brûlée ",
    "three bytes": "中文字",
    "three bytes, the first is e0": "नमस्ते",
    "three bytes, the first is ed": "하늘",
    "four bytes": "😀🎉",
    "four bytes, the last planes": "\U0010ffff\U000f0000",
    "all lengths": "aé中😀",
}
NBYTES = 2 * utf8._PROVEN_NBYTES + 50_000
"""More than two chunks."""


def by_decoder(data):
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return None


def found(data):
    return invalid_utf8(np.frombuffer(data, np.uint8))


@pytest.fixture
def only_proof(monkeypatch):
    """Nothing is left to the decoder for its size, or for being almost ASCII."""
    monkeypatch.setattr(utf8, "_DECODED_NBYTES", 0)
    monkeypatch.setattr(utf8, "_SAMPLED", 1)


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.usefixtures("only_proof")
def test_the_proof_accepts_what_the_decoder_accepts(length):
    """All sequences of the bounds: neither damage that is accepted nor text that is left to the slow way."""
    proof = utf8._Proof(length)
    for each in itertools.product(BOUNDS, repeat=length):
        data = bytes(each)
        assert (by_decoder(data) is None) == proof.holds(np.frombuffer(data, np.uint8)), data.hex(" ")


def repeated(text):
    encoded = text.encode()
    return encoded * (NBYTES // len(encoded))


@pytest.mark.parametrize("script", SCRIPTS)
def test_long_text_is_proven_without_the_decoder(script):
    data = np.frombuffer(repeated(SCRIPTS[script])[:NBYTES], np.uint8)
    chunk = data[: utf8._code_point_start(data, 0, utf8._PROVEN_NBYTES)]
    assert utf8._Proof(len(chunk)).holds(chunk)


DAMAGE = {
    "a byte that never occurs": b"\xff",
    "a continuation that nothing asks for": b"\x80",
    "two bytes for ASCII": b"\xc0\xaf",
    "three bytes for less": b"\xe0\x9f\xbf",
    "a surrogate": b"\xed\xa0\x80",
    "four bytes for less": b"\xf0\x8f\xbf\xbf",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "an end too early": b"\xe4\xb8",
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_the_first_bad_byte_is_that_of_the_decoder(script, damage):
    """In the first chunk, beside the end of one, in a later one, and at the end of all."""
    text, size = repeated(SCRIPTS[script]), len(SCRIPTS[script].encode())
    chunk = utf8._PROVEN_NBYTES
    for near in (0, 1000, chunk - 4, chunk, 2 * chunk + 1000, len(text)):
        for at in {near // size * size, near}:
            data = text[:at] + DAMAGE[damage] + text[at:]
            assert by_decoder(data) is not None
            assert by_decoder(data) == found(data), at


@pytest.mark.parametrize("script", SCRIPTS)
def test_text_cut_anywhere_in_its_last_code_points_is_as_the_decoder_finds_it(script):
    text = repeated(SCRIPTS[script])
    for cut in range(8):
        data = text[: len(text) - cut]
        assert by_decoder(data) == found(data), cut


def test_text_that_is_almost_ascii_is_as_the_decoder_finds_it():
    text = b"a" * NBYTES + "é".encode() + b"a" * NBYTES
    assert found(text) is None
    assert NBYTES == found(text.replace(b"\xa9", b"a"))


def test_continuations_are_the_bytes_of_two_leading_bits():
    data = np.arange(256, dtype=np.uint8)
    assert list(range(0x80, 0xC0)) == np.flatnonzero(continues(data)).tolist()
    assert any_continues(data[0xBF:])
    assert not any_continues(data[0xC0:])
    assert not any_continues(data[:0])
