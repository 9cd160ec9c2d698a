"""URIs in parts, and back."""

import pytest

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated import TCP, UNIX
from spark_arrow_ipc.ipc.dissociated.location import Location, parse_address, parse_location

URIS = [
    ("tcp", "dissociated+tcp://127.0.0.1:5005?want_data=1&free_data=2",
     Location(TCP, "127.0.0.1", 5005, want_data=1, free_data=2)),
    ("ipv6", "dissociated+tcp://[::1]:5005?want_data=1", Location(TCP, "::1", 5005, want_data=1)),
    ("a number above 63 bits, as the reference's", "dissociated+tcp://h:1?want_data=18446741783881759408",
     Location(TCP, "h", 1, want_data=0xFFFFFDEADBA0BAB0)),
    ("unix", "dissociated+unix:///run/x.sock?want_data=0", Location(UNIX, path="/run/x.sock", want_data=0)),
    ("a ticket of any bytes", "dissociated+unix:///s%20t?want_data=1&ticket=a%26%FF%2B%20%3D",
     Location(UNIX, path="/s t", want_data=1, ticket=b"a&\xff+ =")),
    ("a handle with all characters of base64", "dissociated+tcp://h:1?want_data=1&remote_handle=%2B%2F8%3D",
     Location(TCP, "h", 1, want_data=1, remote_handle=b"\xfb\xff")),
    ("a part", "dissociated+tcp://h:1?want_data=1&want_part=9&part=2&of=3",
     Location(TCP, "h", 1, want_data=1, want_part=9, part=2, of=3)),
    ("a number of parts", "dissociated+tcp://h:1?want_data=1&of=100000", Location(TCP, "h", 1, want_data=1, of=100_000)),
]  # fmt: skip


@pytest.mark.parametrize(("uri", "location"), [c[1:] for c in URIS], ids=[c[0] for c in URIS])
def test_uris_are_parsed_and_written(uri, location):
    assert location == parse_location(uri)
    assert uri == location.uri


READ = [
    ("a ticket in the path", "dissociated+tcp://h:1/flights/2013?want_data=1", b"flights/2013"),
    ("a plus that was not escaped", "dissociated+tcp://h:1?want_data=1&ticket=a+b", b"a+b"),
    ("other parameters", "dissociated+tcp://h:1?want_data=1&x=y", None),
]


@pytest.mark.parametrize(("uri", "ticket"), [c[1:] for c in READ], ids=[c[0] for c in READ])
def test_what_others_write_is_read(uri, ticket):
    assert ticket == parse_location(uri).ticket


REFUSED = [
    ("no want_data", "dissociated+tcp://h:1?free_data=1", OptionError, "want_data"),
    ("a sign", "dissociated+tcp://h:1?want_data=-1", OptionError, "want_data to be a number"),
    ("65 bits", "dissociated+tcp://h:1?want_data=18446744073709551616", OptionError, "want_data to be a number"),
    ("a million digits", "dissociated+tcp://h:1?want_data=" + "9" * 10**5, OptionError, "want_data to be a number"),
    ("other digits", "dissociated+tcp://h:1?want_data=\u0661", OptionError, "want_data to be a number"),
    ("twice", "dissociated+tcp://h:1?want_data=1&want_data=2", OptionError, "twice"),
    ("a handle that is no base64", "dissociated+tcp://h:1?want_data=1&remote_handle=%21", OptionError, "base64"),
    ("no port", "dissociated+tcp://h?want_data=1", OptionError, "host:port"),
    ("a port of five digits too many", "dissociated+tcp://h:1234567?want_data=1", OptionError, "broken"),
    ("no host", "dissociated+tcp://:1?want_data=1", OptionError, "host:port"),
    ("a password", "dissociated+tcp://u:p@h:1?want_data=1", OptionError, "host:port"),
    ("two tickets", "dissociated+tcp://h:1/a?want_data=1&ticket=b", OptionError, "both"),
    ("a part too many", "dissociated+tcp://h:1?want_data=1&part=3&of=3", OptionError, "less than it"),
    ("a part of nothing", "dissociated+tcp://h:1?want_data=1&part=0", OptionError, "less than it"),
    ("no parts", "dissociated+tcp://h:1?want_data=1&of=0", OptionError, "a number of parts"),
    ("many parts", "dissociated+tcp://h:1?want_data=1&of=100001", OptionError, "1 to 100,000"),
    ("a host of a socket", "dissociated+unix://run/x?want_data=1", OptionError, "absolute path"),
    ("a zero byte", "dissociated+unix:///x%00y?want_data=1", OptionError, "absolute path"),
    ("another scheme", "ucx://h:1?want_data=1", UnsupportedError, "ucx:"),
    ("a path", "/data/x.arrow", UnsupportedError, r"\(none\)"),
    ("a long one", "dissociated+tcp://h:1?want_data=1&x=" + "y" * (1 << 20), OptionError, "1,048,576 characters"),
]


@pytest.mark.parametrize(("uri", "error", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_bad_uris_are_refused(uri, error, words):
    with pytest.raises(error, match=words):
        parse_location(uri)


def test_a_server_listens_where_no_number_is_known_yet():
    assert Location(TCP, "127.0.0.1", 0) == parse_address("dissociated+tcp://127.0.0.1:0")


def test_an_address_shows_no_number_and_no_ticket():
    location = parse_location("dissociated+tcp://h:1?want_data=123").with_ticket(b"flights")
    assert "dissociated+tcp://h:1" == location.address
    assert location.uri.endswith("&ticket=flights")


SHOWN = [
    ("dissociated+tcp://h:1/a/b?want_data=7&want_part=8&free_data=9&of=3", "dissociated+tcp://h:1?ticket=a/b"),
    ("dissociated+tcp://h:1/a?want_data=7&part=1&of=3", "dissociated+tcp://h:1?ticket=a&part=1&of=3"),
    ("dissociated+unix:///s?want_data=7&ticket=%00", "dissociated+unix:///s?ticket=%00"),
    ("dissociated+unix:///s?want_data=7&remote_handle=AAAA", "dissociated+unix:///s"),
]


@pytest.mark.parametrize(("uri", "shown"), SHOWN)
def test_what_is_shown_has_no_tags(uri, shown):
    assert shown == parse_location(uri).without_tags
