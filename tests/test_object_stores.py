"""The servers of `object_stores.py` start, hold a bucket, and are gone afterwards, whatever happened."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="object stores need the extra 'cloud'")

import obstore
from object_stores import SERVERS, boto_client, running, supervised
from obstore.store import from_url

REAL = [name for name in SERVERS if name != "memory"]
PROGRAMS = {"moto": "moto.server", "seaweedfs": "weed", "azurite": "azurite"}
"""A part of the command that starts each."""


def store_of(running_store):
    options = {name: value for name, value in running_store.options.items() if name != "allow_http"}
    return from_url(running_store.url, client_options={"allow_http": True}, **options)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REAL)
def test_a_server_has_a_bucket_and_creates_an_object_once(servers, name):
    store = store_of(servers(name))
    obstore.put(store, "a/b", b"123", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "a/b", b"4", mode="create")
    assert b"123" == bytes(obstore.get(store, "a/b").bytes())
    obstore.delete(store, "a/b")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REAL)
def test_a_server_listens_on_the_loopback_address_alone(servers, name):
    servers(name)
    table = Path("/proc/net/tcp")
    if not table.is_file():
        pytest.skip("no table of sockets here")
    # The shared Spark session is a child of this process as well.
    servers_of_it = [pid for pid in descendants(os.getpid()) if PROGRAMS[name] in command_of(pid)]
    mine = {target for pid in servers_of_it for target in open_files(pid)}
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path("/proc/net", file).read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine]
    assert listening
    assert [] == [address for address in listening if not address.startswith("0100007F:")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["moto", "seaweedfs"])
def test_a_bucket_takes_the_rule_of_the_page_for_uploads_that_were_cut_off(servers, name):
    client = boto_client(store := servers(name))
    bucket = store.url.removeprefix("s3://")
    page = (Path(__file__).parents[1] / "docs" / "object_stores.md").read_text()
    rules = json.loads(page.partition("`uploads.json`")[2].partition("```json\n")[2].partition("```")[0])
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    (rule,) = client.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert (7, "Enabled") == (rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"], rule["Status"])
    client.delete_bucket_lifecycle(Bucket=bucket)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended
        return ""


def open_files(pid):
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(link.readlink())


def descendants(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] + [grand for child in children for grand in descendants(int(child))]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended, before or between the two calls
        return False


def wait_until_gone(pid):
    end = time.monotonic() + 120
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)


SLEEPER = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]


def pid_in(directory):
    end = time.monotonic() + 120
    while not (text := (directory / "log").read_text()).endswith("\n"):
        assert time.monotonic() < end
        time.sleep(0.01)
    return int(text)


def test_a_server_ends_with_its_block_when_a_test_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), supervised(SLEEPER, tmp_path):
        pid = pid_in(tmp_path)
        assert is_alive(pid)
        1 / 0  # noqa: B018
    wait_until_gone(pid)


@pytest.mark.slow
def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    script = f"""
        import sys, time, pathlib
        from object_stores import supervised
        with supervised({SLEEPER!r}, pathlib.Path({str(tmp_path)!r})):
            time.sleep(600)
    """
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent / "fakes")}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=environment) as starter:
        while not (tmp_path / "log").is_file():
            time.sleep(0.01)
        pid = pid_in(tmp_path)
        starter.send_signal(signal.SIGKILL)
    wait_until_gone(pid)


def test_a_server_that_cannot_start_is_tried_on_other_ports_and_said():
    tried = []

    def command(ports, directory):
        tried.append(ports)
        return [sys.executable, "-c", "print('the port is taken'); raise SystemExit(3)"]

    def never(ports):
        raise OSError

    failure = pytest.raises(pytest.fail.Exception, match=r"(?s)3 attempts: it ended with status 3.*the port is taken")
    with failure, running("toy", command, 2, never):
        pass
    assert 3 == len({tuple(ports) for ports in tried})
