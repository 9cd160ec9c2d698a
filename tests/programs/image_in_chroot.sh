#!/usr/bin/env bash
# Where no Docker is: carry out examples/clusters/kubernetes/Dockerfile in a chroot, line by line, and then its Job's command.
#     tests/programs/image_in_chroot.sh [FOLDER]      (as root, on Debian or Ubuntu, with debootstrap and python3's pip)
# FOLDER, by default build/image, keeps the base for the next run: Ubuntu 22.04 (whose signature Debian has no keys to check),
# Java 17, the user `spark` and PyPI's pyspark in SPARK_HOME, as apache/spark has it. The wheel is of this checkout. The command
# stands as in the manifest, with local[2] for Kubernetes' master; a second job makes Arrow files of what it wrote. 4 to 10 minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
user=root image=$(realpath -m "${1:-build/image}") files=examples/clusters/kubernetes
if [[ ${INSIDE:-} != yes ]]; then  # mounts of its own, which end with it, as do all its processes
    INSIDE=yes exec unshare --mount --pid --fork --kill-child "${BASH_SOURCE[0]}" "$image"
fi
declare -A variables=([PATH]=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin [HOME]=/root)
inside() {  # COMMAND ...: run it in the image, as its user, with its variables and no others
    local name assignments=()
    for name in "${!variables[@]}"; do assignments+=("$name=${variables[$name]}"); done
    chroot --userspec="$user" "$image" env -i -C /opt/spark/work-dir "${assignments[@]}" "$@" </dev/null
}
if [[ ! -d $image ]]; then
    base=$image.new packages=openjdk-17-jre-headless,ca-certificates,procps,tini,python3,python3-pip
    rm -rf --one-file-system "$base"
    debootstrap --no-check-gpg --variant=minbase --components=main,universe --include=$packages jammy "$base" >&2
    sed -i 'p;s/jammy/jammy-updates/' "$base/etc/apt/sources.list"
    chroot "$base" useradd --system --uid 185 --user-group --no-create-home --home-dir /nonexistent spark
    version=$(sed -n 's/^ARG BASE=.*:\([0-9.]*\)-.*/\1/p' $files/Dockerfile)
    python3 -m pip install -q --no-deps --target "$base/opt/pip" "pyspark==$version"
    mv "$base/opt/pip/pyspark" "$base/opt/spark"
    install -d -o 185 -g 185 "$base/opt/spark/work-dir"
    mv "$base" "$image"
fi
[[ -d $image/opt/spark/work-dir ]]
variables[SPARK_HOME]=/opt/spark
mount -t proc proc "$image/proc"
cp /etc/resolv.conf "$image/etc/"
echo "127.0.0.1 localhost $(hostname) $(sed -n 's/.*spark.driver.host=//p' $files/spark-job.yaml)" >"$image/etc/hosts"
rm -rf "$image"/{opt/python,opt/jobs,dist,lake}

# What PIP_* tell pip here, they tell it in the image.
python3 -m pip wheel -q --no-deps -w "$image/dist" .
while IFS='=' read -r name value; do variables[$name]=$value; done < <(env | grep '^PIP_' || true)
[[ -z ${PIP_CERT:-} ]] || cp "$PIP_CERT" "$image/etc/ssl/certs/ca-certificates.crt"
variables[PIP_FIND_LINKS]=/dist
while read -r instruction rest; do
    echo "== $instruction $rest" >&2
    case $instruction in
        FROM) ;;
        USER) user=$rest; [[ $user == root ]] || variables[HOME]=/nonexistent ;;
        ARG | ENV) while IFS='=' read -r name value; do variables[$name]=$value; done < <(xargs -n1 <<<"$rest") ;;
        COPY) install -D -t "$image/${rest#* }" "examples/${rest% *}" ;;
        RUN) inside sh -c "$rest" >&2 ;;
        *) exit 1 ;;
    esac
done < <(sed -e '/^#/d' -e '/^$/d' -e ':a' -e '/\\$/{N;s/\\\n//;ba}' $files/Dockerfile)

install -d -o root -g 185 -m 2775 "$image/lake"  # as fsGroup leaves a volume
inside /opt/python/bin/python -m spark_arrow_ipc.examples /lake
mapfile -t command < <(sed -n '/ command:$/,/ resources:$/s/^ *- //p' $files/spark-job.yaml)
command=("${command[@]/#--master=*/--master=local[2]}")
inside "${command[@]}"
inside "${command[@]:0:${#command[@]}-4}" --from=parquet /lake/flights-parquet /lake/flights-arrow
