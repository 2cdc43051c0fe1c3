#!/usr/bin/env bash
# The demonstration in containers, from images to a model and a report, and everything taken down again.
#
#   deploy/compose-demo.sh          # or: make compose-demo
#   deploy/compose-demo.sh up       # leaves it running, with the dashboard on loopback; or: make compose-up
#   deploy/compose-demo.sh link     # the dashboard's address, which signs in; or: make compose-link
#   deploy/compose-demo.sh down     # takes that down, with keys, state and networks; or: make compose-down
#
# The model and its card are left in OUTPUT, compose-demo/ unless that is set.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${OUTPUT:-compose-demo}
federation=${PARLEY_FEDERATION:-$PWD/deploy/federation}
export PARLEY_FEDERATION=$federation

if command -v docker-compose >/dev/null; then
    compose() { docker-compose -f deploy/compose.yaml "$@"; }
else
    compose() { docker compose -f deploy/compose.yaml "$@"; }
fi

say() { printf '\n== %s s: %s\n' "$SECONDS" "$1"; }

# What compose says of every network and container helps only where it fails.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -40 "$log" >&2
        rm -f "$log"
        echo "error: this failed: $*" >&2
        return 1
    fi
    rm -f "$log"
}

need_engine() {
    docker info >/dev/null 2>&1 || { echo "error: no Docker engine answers: start it, or ask for access to it" >&2; exit 1; }
    compose version >/dev/null 2>&1 || { echo "error: docker-compose is not installed: 1.29 or later is needed" >&2; exit 1; }
}

build() {
    say "building three images; the first time takes minutes"
    PARLEY_VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
    PARLEY_PARTY_DIGEST=$(python3 federation/parley/node/software.py party)
    PARLEY_SERVER_DIGEST=$(python3 federation/parley/node/software.py server)
    PARLEY_DEMO_DIGEST=$(python3 federation/parley/node/software.py demo)
    export PARLEY_VERSION PARLEY_PARTY_DIGEST PARLEY_SERVER_DIGEST PARLEY_DEMO_DIGEST
    quietly compose build lead cleveland provision
}

up() {
    build
    say "keys, certificates and configuration of seven nodes, into $federation"
    mkdir -p "$federation"
    compose run --rm provision 2>&1 | grep -v '^Creating '
    say "each hospital compares its records with its schema, and seals both"
    for hospital in cleveland hungarian switzerland va; do
        quietly compose run --rm --no-deps "$hospital" schema check /node
    done
    say "starting seven containers, each once those that it dials are healthy"
    quietly compose up -d --no-build
    docker ps --filter "label=com.docker.compose.project=$(project)" --format 'table {{.Names}}\t{{.Status}}'
}

project() { docker inspect --format '{{index .Config.Labels "com.docker.compose.project"}}' "$(compose ps -q lead)"; }

link() {
    local address
    address=$(compose port lead 7480)
    echo "The dashboard, for this machine alone. The address signs in, so keep it to yourself:"
    printf '\n    %s\n\n' "$(compose exec -T lead parley dashboard /node --link --at "$address")"
    echo "The browser will warn: the certificate is of this federation's authority and names a node, not a web site."
    echo "Go on if the SHA-256 fingerprint that it shows is this one, whatever stands between the digits:"
    printf '\n    %s\n\n' "$(compose exec -T lead parley node show --folder /node/identity | sed -n 's/^fingerprint *//p')"
}

down() {
    quietly compose down --volumes --remove-orphans --timeout 10
    if [ -d "$federation" ] && docker image inspect "${PARLEY_DEMO_IMAGE:-parley/demo}" >/dev/null 2>&1; then
        # its files belong to the user of the containers
        docker run --rm --network none --user 0:0 -v "$federation:/federation" "${PARLEY_DEMO_IMAGE:-parley/demo}" \
            provision /federation --remove
        rmdir "$federation" 2>/dev/null || true
    fi
}

train() {
    say "the run, as the researcher follows it"
    compose exec -T lead parley run /node/study.toml --node /node
    say "the coordinator's report"
    compose exec -T lead parley status --node /node
    say "the model's card: what was trained, by whom, at what privacy"
    mkdir -p "$output"
    docker cp "$(compose ps -q lead):/node/models/." "$output"
    find "$output" -type f -name '*.json' -exec sh -c 'cat "$1"; echo' _ {} \;
}

case "${1:-demo}" in
    demo) need_engine; trap 'say "taking containers, networks, keys and state away"; down' EXIT; up; train
        say "left in $output/: the model and its card"; ls -lh "$output" ;;
    up) need_engine; up; echo; link
        echo "Train a model:       docker-compose -f deploy/compose.yaml exec lead parley run /node/study.toml --node /node"
        echo "Take all of it down: make compose-down" ;;
    link) link ;;
    down) down; echo "gone: containers, networks, keys and state" ;;
    *) sed -n '2,9p' "$0"; exit 2 ;;
esac
