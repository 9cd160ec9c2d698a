#!/usr/bin/env bash
# Run a job whose executors bring this package along, in a packed environment: the cluster needs Spark and Python only.
#
#     examples/clusters/standalone.sh examples/clusters/packed.sh        # MASTER is the cluster; without it, local[*]
#     PACKAGE=dist/spark_arrow_ipc-0.1.0-py3-none-any.whl MASTER=yarn examples/clusters/packed.sh
#
# The environment is made in build/packed. Driver and executors start ./env/bin/python: the driver where spark-submit
# was called, the executors where Spark unpacks the archive.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
package=${PACKAGE:-spark-arrow-ipc}
if [[ -f "$package" ]]; then package=$(realpath "$package"); fi
export SPARK_HOME="${SPARK_HOME:-$(python3 -c 'import pyspark; print(pyspark.__path__[0])')}"
rm -rf "$repository/build/packed" && mkdir -p "$repository/build/packed" && cd "$repository/build/packed"

python3 -m venv packed
# venv-pack imports pkg_resources, which setuptools 82 no longer has.
packed/bin/pip install -q venv-pack 'setuptools<82' pyarrow 'pandas<3' "$package"
packed/bin/venv-pack -q -p packed -o packed.tar.gz
mkdir env && tar -xzf packed.tar.gz -C env

./env/bin/python -m spark_arrow_ipc.examples data
export PYSPARK_DRIVER_PYTHON=./env/bin/python PYSPARK_PYTHON=./env/bin/python
submit() {
    "$SPARK_HOME/bin/spark-submit" --archives packed.tar.gz#env --properties-file "$repository/conf/standalone.conf" \
        "$repository/examples/submit_convert.py" "$@"
}
submit --from arrowipc --to parquet "$PWD/data/flights.arrow" "$PWD/flights-parquet"
submit --from parquet --compression zstd "$PWD/flights-parquet" "$PWD/flights-arrow"
