#!/usr/bin/env bash
# Start a Spark cluster on this machine, one master and two workers, run a command beside it, and stop it:
#
#     examples/clusters/standalone.sh spark-submit --properties-file conf/standalone.conf \
#         examples/submit_convert.py --from arrowipc --to parquet $PWD/flights.arrow $PWD/flights-parquet
#
# spark-submit takes the master's address from MASTER, which the command gets. Paths are absolute: workers have
# directories of their own. Python processes are those of PYSPARK_PYTHON, which has this package and pyarrow.
set -euo pipefail

export SPARK_HOME="${SPARK_HOME:-$(python3 -c 'import pyspark; print(pyspark.__path__[0])')}" SPARK_LOCAL_IP=127.0.0.1
settings="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/conf/standalone.conf"
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT

daemon() {  # NAME CLASS [ARGUMENT ...]
    "$SPARK_HOME/bin/spark-class" "org.apache.spark.deploy.$2" --host 127.0.0.1 --port 0 --webui-port 0 \
        --properties-file "$settings" "${@:3}" >"$folder/$1.log" 2>&1 &
    pid=$!
}

await() {  # NAME PATTERN: print what the log of the last daemon has for it
    for _ in $(seq 1800); do
        grep -m1 -oE "$2" "$folder/$1.log" && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    cat "$folder/$1.log" >&2
    return 1
}

daemon master master.Master
MASTER=$(await master 'spark://[0-9.:]+')
export MASTER
echo "master: $MASTER" >&2
for number in 1 2; do
    daemon "worker$number" worker.Worker --cores 1 --memory 1g --work-dir "$folder/worker$number" "$MASTER"
    await "worker$number" 'Successfully registered with master' >/dev/null
    echo "worker $number has registered" >&2
done

"$@"
