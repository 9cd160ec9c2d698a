"""The figures of a rewrite, in a line and in a notebook."""

from spark_arrow_ipc.dataset.write.commit import CommitSummary
from spark_arrow_ipc.spark.rewrite.rewrite import RewriteResult


def test_figures_are_those_of_the_commit_and_of_what_was_read():
    summary = CommitSummary("a" * 32, "rewrite", files=2, rows=5_000, nbytes=70_000, removed=3)
    made = RewriteResult.of(summary, {"/d/a": 100_000, "/d/b": 50_000, "/d/c": 1}, 5_000)
    assert "3 files (5,000 rows, 150,001 bytes) became 2 (5,000 rows, 70,000 bytes)" == str(made)
    assert (3, True, "a" * 32) == (made.files_removed, made.published, made.jobid)
    assert "<td>bytes written</td><td style='text-align:right'>70,000</td>" in made._repr_html_()


def test_nothing_to_do_is_said():
    assert "nothing to do" == str(RewriteResult())
    assert "nothing to do" == str(RewriteResult.of(CommitSummary("a" * 32, "append", published=False), {}, 0))
