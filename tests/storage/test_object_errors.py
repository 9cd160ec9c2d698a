"""What becomes of the library's errors, and which calls are made again."""

import obstore
import pytest

from spark_arrow_ipc.errors import FileChangedError, UnsupportedError
from spark_arrow_ipc.storage.object_files import missing, object_errors, repeat

SECRET = "hunter2-very-secret"
of = obstore.exceptions

LISTING = "Generic S3 error: Error performing list request: Server returned non-2xx status code: {}: <Error>"


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (of.PermissionDeniedError(f"403 {SECRET}\n\nDebug source: inner"), PermissionError, r"check the credentials and their rights \(403 \*\*\*\)"),
        (of.UnauthenticatedError("401"), PermissionError, "check the credentials"),
        (of.GenericError(LISTING.format("403 Forbidden")), PermissionError, "check the credentials"),
        (of.GenericError("DeleteObjects request failed for key a: Access Denied (code: AccessDenied)"), PermissionError, "check the credentials"),
        (of.GenericError(LISTING.format("404 Not Found")), OSError, "no such bucket or container"),
        (of.GenericError("Request precondition failure: Server returned non-2xx status code: 412"), FileChangedError, "replaced"),
        (of.AlreadyExistsError("Request precondition failure: status code: 412"), FileExistsError, "412"),
        (of.GenericError("a\nb " + "x" * 1_000), OSError, r"a b x+\.\.\."),
        (of.GenericError(f"status code: 500: <?xml version='1.0'?>\n<Error><Code>Slow</Code><Message>a &lt;{SECRET}&gt;</Message><X>y</X>"), OSError, r"status code: 500: Slow: a <\*\*\*>: 's3"),
        (of.GenericError("status code: 503 Bad: <html><head><Code>"), OSError, r"status code: 503 Bad: 's3"),
        (of.GenericError("status code: 400: <Error><Message>no &amp; no</Mess"), OSError, r"status code: 400: no & no: 's3"),
        (of.GenericError("1 < 2 and <3"), OSError, "1 < 2 and <3"),
        (of.InvalidPathError("a//b"), OSError, r"a key here has an empty part \(//\)"),
        (of.NotSupportedError("no copies"), UnsupportedError, "no copies"),
        (of.PreconditionError("412"), FileChangedError, "replaced after it was listed"),
        (of.AlreadyExistsError("409"), FileExistsError, r"or being written by another request \(409\)"),
        (FileNotFoundError("x"), FileNotFoundError, "No such file"),
        (OSError(f"of a writer: status code: 403 {SECRET}\n\nDebug"), PermissionError, r"of a writer: status code: 403 \*\*\*"),
    ],
)  # fmt: skip
def test_an_error_is_one_line_with_the_path_and_without_a_secret(error, raised, message):
    with pytest.raises(raised, match=message) as caught, object_errors("s3://b/a", (("secret_access_key", SECRET),)):
        raise error
    assert raised is type(caught.value)
    text = str(caught.value)
    assert "s3://b/a" in text
    assert "\n" not in text
    assert SECRET not in text
    assert caught.value.__suppress_context__


def test_a_panic_of_the_library_is_an_error():
    """As after a credential of the environment with a line break."""

    class PanicException(BaseException):
        pass

    with pytest.raises(OSError, match=r"has failed .*InvalidHeaderValue.*s3://b/a"), object_errors("s3://b/a", ()):
        raise PanicException("called `Result::unwrap()` on an `Err` value: InvalidHeaderValue")
    with pytest.raises(KeyboardInterrupt), object_errors("s3://b/a", ()):
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [missing("s3://b/a"), FileExistsError(17, "ours", "s3://b/a"), KeyError("bug")])
def test_errors_of_ours_pass(error):
    with pytest.raises(type(error)) as caught, object_errors("s3://b/a", ()):
        raise error
    assert str(error) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("HTTP error: request or response body error", 2),
        ("Error performing POST http://h/ in 30s - HTTP error: error sending request", 2),
        ("in 180s, after 10 retries, max_retries: 10 - HTTP error: error sending request", 1),
        ("status code: 400 Bad Request", 1),
    ],
)
def test_a_call_is_made_again_where_its_reply_broke_off(text, calls):
    made = []

    def call():
        made.append(1)
        raise OSError(5, text, "s3://b/a")

    with pytest.raises(OSError, match="s3://b/a"):
        repeat(call)
    assert calls == len(made)


def test_the_second_answer_counts():
    answers = iter([OSError(5, "response body error: request or response body error"), "fine"])

    def call():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert "fine" == repeat(call)
