#!/usr/bin/env bash
# Downloads a release of Hydrant, starts `hydrant dev` in the background, and waits until it is ready.
#
# In: the variables of action.yml, and RUNNER_TEMP, GITHUB_OUTPUT and GITHUB_PATH of the runner. Out: the endpoints and
# the process id in GITHUB_OUTPUT, the program's directory in GITHUB_PATH. The node runs until the job ends.
set -euo pipefail

fail() {
    echo "::error::hydrant: $1"
    exit 1
}

[ "$(uname -s)" = Linux ] || fail "releases are for Linux; this runner is $(uname -s)"
name=hydrant-$HYDRANT_VERSION-$(uname -m)-linux
release=${HYDRANT_RELEASE_URL%/}/v$HYDRANT_VERSION
dir=$RUNNER_TEMP/hydrant
mkdir -p "$dir"
cd "$dir"

download() {
    curl --fail --silent --show-error --location --retry 3 --output "$1" "$release/$1" ||
        fail "$release/$1 could not be downloaded"
}
download "$name.tar.gz"
sha256=${HYDRANT_SHA256:-}
if [ -z "$sha256" ]; then
    download SHA256SUMS
    sha256=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' SHA256SUMS)
fi
[ -n "$sha256" ] || fail "SHA256SUMS has no line for $name.tar.gz"
echo "$sha256  $name.tar.gz" | sha256sum --check --quiet - || fail "$name.tar.gz has another SHA-256"
tar -xzf "$name.tar.gz"
bin=$dir/$name/bin
echo "$bin" >>"$GITHUB_PATH"

log=$dir/hydrant.log
endpoints=$dir/endpoints.json
rm -f "$endpoints"
# The flags are divided at white space, and not expanded. `read` fails at the end of the text.
read -r -d '' -a args <<<"${HYDRANT_ARGS:-}" || true
setsid "$bin/hydrant" dev --log "${args[@]}" --endpoints-file "$endpoints" >"$log" 2>&1 </dev/null &
pid=$!
# The file appears, complete, when the node is ready.
deadline=$((SECONDS + HYDRANT_TIMEOUT_S))
until [ -e "$endpoints" ]; do
    if ! kill -0 "$pid" 2>/dev/null; then
        cat "$log"
        fail "the node ended before it was ready"
    fi
    if ((SECONDS >= deadline)); then
        cat "$log"
        kill "$pid"
        fail "the node was not ready within $HYDRANT_TIMEOUT_S s"
    fi
    sleep 0.05
done
endpoint() { sed -E "s/.*\"$1\":\"([^\"]*)\".*/\1/" "$endpoints"; }
{
    echo "rpc=$(endpoint rpc)"
    echo "ws=$(endpoint ws)"
    echo "pid=$pid"
    echo "log=$log"
} >>"$GITHUB_OUTPUT"
