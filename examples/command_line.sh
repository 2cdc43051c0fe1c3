#!/bin/sh
# The bundled records from the command line: train, see what privacy costs, draft a run and read what it would mean.
#
#     sh examples/command_line.sh
set -eu

here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/own-data/*.toml "$here"/../deploy/parley/demo/data/heart_disease/*.csv "$work"

parley simulate "$work/study.toml" --seeds 2
parley study plan "$work/study.toml"
parley manifest draft "$work/study.toml" -o "$work/manifest.toml"
parley manifest check "$work/manifest.toml"
parley privacy calibrate --records 690 --batch 690 --rounds 10 --epsilon 1 --delta 1e-5
