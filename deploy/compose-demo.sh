#!/usr/bin/env bash
# The demonstration in containers, from images to a model and a report, and everything taken down again.
#
#   deploy/compose-demo.sh          # or: make compose-demo
#   deploy/compose-demo.sh up       # leaves it running, with the dashboard on loopback; or: make compose-up
#   deploy/compose-demo.sh down     # takes that down, with keys, state and networks; or: make compose-down
#
# The model and its card are left in OUTPUT, compose-demo/ unless that is set.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${OUTPUT:-compose-demo}
federation=${PARLEY_FEDERATION:-$PWD/deploy/federation}
export PARLEY_FEDERATION=$federation
compose() { docker-compose -f deploy/compose.yaml "$@"; }

say() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

build() {
    say "images"
    PARLEY_VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
    PARLEY_SOURCE_DIGEST=$(python3 deploy/source_digest.py)
    export PARLEY_VERSION PARLEY_SOURCE_DIGEST
    compose build lead cleveland >compose-build.log 2>&1 || { tail -40 compose-build.log; return 1; }
    rm -f compose-build.log
}

up() {
    build
    say "keys, certificates and configuration of seven nodes"
    mkdir -p "$federation"
    compose run --rm provision
    say "seven containers"
    compose up -d --no-build 2>&1 | grep -v -e '^Creating network' -e '^Creating volume' -e ' \.\.\. $' || true
    compose ps
}

down() {
    compose down --volumes --remove-orphans --timeout 10 2>&1 | grep -v -e '^Removing network' -e ' \.\.\. $' || true
    if [ -d "$federation" ] && docker image inspect "${PARLEY_SERVER_IMAGE:-parley/server}" >/dev/null 2>&1; then
        # its files belong to the user of the containers
        docker run --rm --network none --user 0:0 -v "$federation:/federation" "${PARLEY_SERVER_IMAGE:-parley/server}" \
            provision /federation --remove
        rmdir "$federation" 2>/dev/null || true
    fi
}

train() {
    say "the run, as the researcher follows it"
    compose exec -T lead parley run /node/study.toml --node /node
    say "the report"
    compose exec -T lead parley status --node /node
    mkdir -p "$output"
    docker cp "$(compose ps -q lead):/node/models/." "$output"
    find "$output" -type f -name '*.json' -exec sh -c 'echo "$1:"; cat "$1"; echo' _ {} \;
}

case "${1:-demo}" in
    demo) trap 'say "taking everything down"; down' EXIT; up; train; ls -l "$output" ;;
    up) up; echo "leave it with: make compose-down" ;;
    down) down ;;
    *) sed -n '2,8p' "$0"; exit 2 ;;
esac
