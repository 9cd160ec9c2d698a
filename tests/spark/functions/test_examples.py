"""`examples/functions.py`: its three functions give what numpy and Python compute."""

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

pytest.importorskip("polars")

EXAMPLE = Path(__file__).parents[3] / "examples" / "functions.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example_of_functions", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # As the functions of a program that runs, which are pickled by value.
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def path(example, tmp_path_factory):
    return example.make_file(tmp_path_factory.mktemp("example") / "texts.arrow", 6_000)


def rows_of(path):
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


def test_the_nearest_embeddings(spark, example, path):
    query = example.query_of(path, 7)
    table = rows_of(path)
    scores = np.stack(table["embedding"].to_pylist()).astype(np.float32) @ query
    best = np.argsort(scores)[::-1][:5]
    made = example.nearest(spark, path, query).collect()
    assert 7 == made[0].id
    assert best.tolist() == [row.id for row in made]
    assert np.allclose(scores[best], [row.score for row in made])


def test_cleaned_texts(spark, example, path):
    texts = [re.sub(r"\s+", " ", re.sub("<[^>]*>", "", text)).strip().lower() for text in example.TEXTS]
    wanted = Counter(text for text in texts for _ in range(1_500) if len(text) > 3)
    assert wanted == Counter(row.text for row in example.cleaned(spark, path).collect())


def test_polars_counts_each_batch(spark, example, path):
    wanted = Counter(len(text) for text in rows_of(path)["text"].to_pylist())
    assert wanted == {row.length: row.texts for row in example.lengths(spark, path).collect()}
