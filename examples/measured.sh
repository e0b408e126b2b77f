#!/bin/sh
# Five people's weeks by minute, as measured: four agree to be public, the fifth week is released.
# usage: sh examples/measured.sh unidata.csv FOLDER; the documentation says where the file is from.
set -eu
people=$(realpath "$1")
mkdir -p "$2"
cd "$2"
head -n 40321 "$people" > public.csv
{ head -n 1 "$people"; tail -n 10080 "$people"; } > fifth.csv
run() { echo "\$ $*"; "$@" || echo "exit code $?"; echo; }
rows="--state paxinten --every 1m"
run pufferkit beliefs fit public.csv --segment seqn $rows --cuts 100,760,2020 --out chain.json
run pufferkit beliefs check chain.json --data public.csv --segment seqn $rows
run pufferkit beliefs fit public.csv --segment seqn $rows --cuts 100,760,2020 --kind regimes --regimes 3 \
    --out regimes.json
run pufferkit beliefs check regimes.json --data public.csv --segment seqn $rows
for model in chain regimes; do
    run pufferkit plan --model $model.json --epsilon 1 --length 10080 --query frequencies
done
run pufferkit release fifth.csv $rows --model regimes.json --epsilon 1 --query frequencies \
    --ledger ledger.db --budget 2 --account fifth --out fifth.json --plot fifth.png
run pufferkit verify fifth.json
run pufferkit ledger show ledger.db
