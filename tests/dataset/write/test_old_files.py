"""What an overwrite removes is what it looked at: another program may write the same name at any moment."""

from contextlib import suppress

import pytest
from commit_jobs import APPEND, OVERWRITE, Died, ours, save

from spark_arrow_ipc.dataset.write import old_files
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.storage.local import LocalStorage

RECOVERIES = {"append": lambda data: save(data, APPEND, "k=2:y"), "vacuum": vacuum}


@pytest.fixture
def foreign_file(tmp_path):
    """Return a file of another program beside one of ours."""
    save(tmp_path, APPEND, "k=1:a")
    old = tmp_path / "k=1" / "part-0.arrow"
    old.write_text("old")
    return old


def written_after_the_look(monkeypatch, old):
    """Let another program write an old file's name again when a job has looked at it, and will remove it."""
    is_due, texts = old_files._is_due, ["between"]

    def looked(file, status):
        answer = is_due(file, status)
        if status.path == str(old) and texts:
            old.unlink()
            old.write_text(texts.pop())
        return answer

    monkeypatch.setattr(old_files, "_is_due", looked)


def after_the_move(monkeypatch, action):
    """Do something when an old file of another program was moved away."""
    publish = LocalStorage.publish

    def moved(self, staged, final, **options):
        answer = publish(self, staged, final, **options)
        if "part-0.arrow" in staged and "_ipc_stage" in final:
            action()
        return answer

    monkeypatch.setattr(LocalStorage, "publish", moved)


@pytest.mark.slow
@pytest.mark.parametrize("keep_replaced", [0, 3600])
def test_a_file_that_another_tool_writes_while_the_process_stands_still_stays(
    tmp_path, foreign_file, keep_replaced, monkeypatch, caplog
):
    """However long that is between the look at an old file and its removal."""
    written_after_the_look(monkeypatch, foreign_file)
    save(tmp_path, OVERWRITE, "k=1:x", keep_replaced=keep_replaced)
    assert ["k=1:between", "k=1:x"] == ours(tmp_path)
    assert "part-0.arrow was replaced since the commit that removes it, and stays" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_file_that_was_moved_away_gets_its_name_back(tmp_path, foreign_file, recovery, monkeypatch):
    """Whoever finishes the job looks at what a dead process has moved."""

    def die():
        raise Died

    written_after_the_look(monkeypatch, foreign_file)
    after_the_move(monkeypatch, die)
    with suppress(Died):
        save(tmp_path, OVERWRITE, "k=1:x")
    assert not foreign_file.exists()
    RECOVERIES[recovery](tmp_path)
    assert {"k=1:between", "k=1:x"} <= set(ours(tmp_path))


@pytest.mark.slow
def test_an_old_file_that_a_dead_process_moved_is_removed(tmp_path, foreign_file, monkeypatch):
    def die():
        raise Died

    after_the_move(monkeypatch, die)
    with suppress(Died):
        save(tmp_path, OVERWRITE, "k=1:x")
    vacuum(tmp_path)
    assert ["k=1:x"] == ours(tmp_path)
    assert [] == list(tmp_path.glob("_ipc_stage/*/*"))


@pytest.mark.slow
def test_a_file_whose_name_was_taken_meanwhile_is_kept_aside(tmp_path, foreign_file, monkeypatch, caplog):
    written_after_the_look(monkeypatch, foreign_file)
    after_the_move(monkeypatch, lambda: foreign_file.write_text("after"))
    save(tmp_path, OVERWRITE, "k=1:x")
    assert ["k=1:after", "k=1:x"] == ours(tmp_path)
    (aside,) = tmp_path.glob("_ipc_replaced/*/*")
    assert "between" == aside.read_text()
    assert str(aside) in caplog.text
