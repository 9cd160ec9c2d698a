#!/usr/bin/env bash
# Start a Spark Connect server whose Python has this package, and run a client that has neither it nor Java:
#
#     examples/clusters/connect.sh                    # both environments are made in build/connect
#     PACKAGE=dist/spark_arrow_ipc-0.1.0-py3-none-any.whl examples/clusters/connect.sh
#
# The client's only requirement is pyspark-client, of the server's release or, where that has none, an older one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
package=${PACKAGE:-spark-arrow-ipc}
if [[ -f "$package" ]]; then package=$(realpath "$package"); fi
export SPARK_HOME="${SPARK_HOME:-$(python3 -c 'import pyspark; print(pyspark.__path__[0])')}"
version=$("$SPARK_HOME/bin/spark-submit" --version 2>&1 | sed -nE 's/.* version ([0-9]+\.[0-9]+)\.[0-9]+.*/\1/p' | head -n 1)
rm -rf "$here/../../build/connect" && mkdir -p "$here/../../build/connect" && cd "$here/../../build/connect"

python3 -m venv server
server/bin/pip install -q pyarrow 'pandas<3' "$package"
python3 -m venv client
client/bin/pip install -q "pyspark-client>=4.1,<=$version.99" setuptools 'pandas<3'
server/bin/python -m spark_arrow_ipc.examples data

# What sbin/start-connect-server.sh runs, here as a job of this shell.
PYSPARK_PYTHON="$PWD/server/bin/python" PYSPARK_DRIVER_PYTHON="$PWD/server/bin/python" SPARK_LOCAL_IP=127.0.0.1 \
    "$SPARK_HOME/bin/spark-submit" --class org.apache.spark.sql.connect.service.SparkConnectServer \
    --name "Spark Connect server" --master "${MASTER:-local[2]}" --conf spark.ui.enabled=false \
    --conf spark.connect.grpc.binding.address=127.0.0.1 --conf "spark.connect.grpc.binding.port=${PORT:-15002}" \
    >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true; wait' EXIT
port=""
for _ in $(seq 1800); do
    port=$(sed -nE '/Connect server started at/ s/.*:([0-9]+).*/\1/p' server.log | head -n 1)
    [[ -z "$port" ]] || break
    kill -0 $server || { cat server.log >&2; exit 1; }
    sleep 0.1
done

client/bin/python "$here/connect_client.py" "sc://127.0.0.1:$port" "$PWD/data/flights.arrow" "$PWD/late"
