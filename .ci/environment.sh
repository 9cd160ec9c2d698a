# What .ci/run and .ci/nightly have in common: the corpus, the environment, arrow-js and flechette.
# Needs python3 (3.11 to 3.14), Java 17 or later, and the corpus of Arrow files in $ARROW_IPC_CORPUS.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CI=true
unset PYTHONDONTWRITEBYTECODE  # hundreds of processes would compile the package anew
export ARROW_IPC_CORPUS="${ARROW_IPC_CORPUS:-../shared/corpus}"
if [[ ! -d "$ARROW_IPC_CORPUS" ]]; then
    echo "ARROW_IPC_CORPUS is $ARROW_IPC_CORPUS, which is not a directory" >&2
    exit 1
fi
ARROW_IPC_CORPUS="$(cd "$ARROW_IPC_CORPUS" && pwd)"

exec </dev/null

# What we write is read by arrow-js and flechette as well, where Node is present; their tests skip and say so where not.
if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix build/node apache-arrow lz4js fzstd; then
    export NODE_PATH="$PWD/build/node/node_modules"
    # By itself: without it arrow-js is there all the same.
    npm install --silent --no-audit --no-fund --prefix build/node @uwdata/flechette@2.6 || true
fi
