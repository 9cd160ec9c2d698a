"""Options of fsspec's file systems, read off their constructors."""

import pytest
from fsspec.implementations.ftp import FTPFileSystem
from fsspec_stub import SCHEME, StubFileSystem

from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.storage.fsspec_storage import connect

SECRET = "hunter2-very-secret"
ROOT = f"{SCHEME}://host"


class Passing(StubFileSystem):
    """Hands what it does not know to a library, as sftp does to paramiko."""

    def __init__(self, host, **ssh_kwargs):
        super().__init__(host)
        self.given = ssh_kwargs
        if "nonsense" in ssh_kwargs:
            raise TypeError(f"connect() got an unexpected keyword argument 'nonsense' {SECRET}")


def test_strings_become_what_the_defaults_are():
    system = connect(StubFileSystem, ROOT, (("retries", "7"), ("token", "12"), ("verify", "False")))
    assert (7, "12", False) == (system.retries, system.token, system.verify)
    assert {"port": 22, "username": "me"} == connect(Passing, ROOT, (("port", "22"), ("username", "me"))).given


@pytest.mark.parametrize(
    ("cls", "option", "message"),
    [
        (StubFileSystem, ("retry", SECRET), rf"no option storage\.retry for the scheme {SCHEME}; did you mean storage\.retries"),
        (StubFileSystem, ("xyz", SECRET), "there are global_store, host, retries, token, verify"),
        (StubFileSystem, ("use_listings_cache", "true"), r"no option storage\.use_listings_cache"),
        (StubFileSystem, ("retries", SECRET), r"storage\.retries must be a whole number"),
        (StubFileSystem, ("verify", SECRET), r"storage\.verify must be true or false"),
        (Passing, ("port", SECRET), r"storage\.port must be a whole number"),
        (Passing, ("nonsense", SECRET), r"no option storage\.nonsense"),
        (FTPFileSystem, ("pasword", SECRET), r"no option storage\.pasword for the scheme stub; did you mean storage\.password"),
    ],
)  # fmt: skip
def test_wrong_options_are_named_and_their_values_are_not(cls, option, message):
    with pytest.raises(OptionError, match=message) as caught:
        connect(cls, ROOT, (option,))
    assert SECRET not in str(caught.value)


def test_instances_are_not_shared_with_fsspec():
    assert connect(StubFileSystem, ROOT, ()) is not connect(StubFileSystem, ROOT, ())
    assert {} == StubFileSystem._cache
