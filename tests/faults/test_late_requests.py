"""Some runs below a proxy that repeats and delays. Long: python tests/faults/late_requests.py --runs 1000."""

import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="object stores need the extra 'cloud'")

sys.path.insert(0, str(Path(__file__).parent))

import late_requests


@pytest.mark.parametrize(
    "runs", [pytest.param(5, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.nightly)]
)
def test_readers_see_what_jobs_were_told(runs):
    count = Counter()
    for seed in range(runs):
        late_requests.run(seed, count)
    assert runs == count["runs"]
    assert min(count["PUT late: 200"], count["COPY late: 404"], count["append committed"], count["vacuums"]) > runs
