#!/usr/bin/env bash
# The Spark suite on each PySpark that the package supports, in environments of its own under build/matrix.
#     tests/programs/matrix.sh [first | PYTHON:PYSPARK ...] [-- PYTEST ARGUMENTS]      (-- -m exhaustive for those that start clusters)
# A PySpark is a minor version, of which the newest release runs, or a release. Without pairs, it runs those below; `first`
# is the first release of each minor version. Ends with status 1 when the suite of one failed or its Python is not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

pairs=()
while (($#)) && [[ "$1" != -- ]]; do
    pairs+=("$1")
    shift
done
shift $(($# ? 1 : 0))
if ((${#pairs[@]} == 0)); then
    pairs=(python3.13:4.1 python3.12:4.2 python3.11:4.3 python3.14:4.3)
elif [[ "${pairs[*]}" == first ]]; then
    pairs=(python3.11:4.1.0 python3.11:4.2.0 python3.11:4.3.0)
fi

results=()
status=0
for pair in "${pairs[@]}"; do
    python="${pair%%:*}" pyspark="${pair##*:}"
    if ! "$python" --version >/dev/null 2>&1; then
        results+=("$python with PySpark $pyspark NOT RUN: there is no $python on the path")
        status=1
        continue
    fi
    environment="build/matrix/$(basename "$python")-pyspark$pyspark"
    "$python" -m venv "$environment"
    "$environment/bin/pip" install -q -e '.[test]' "pyspark[sql]==$pyspark.*"
    if "$environment/bin/python" -m pytest -q -n auto --maxprocesses 4 --dist loadfile tests/spark "$@" | tee "$environment/result.txt"; then
        answer=passed
    else
        answer=failed
        status=1
    fi
    versions="$("$environment/bin/python" -c 'import platform, pyspark; print(platform.python_version(), "with PySpark", pyspark.__version__)')"
    results+=("Python $versions $answer: $(tail -n 1 "$environment/result.txt")")
done
printf '%s\n' "${results[@]}"
exit "$status"
