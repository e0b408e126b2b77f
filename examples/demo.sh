#!/bin/sh
# The demo: a plan, a release and two pictures from a generated week of activity (make_week.py).
set -eu
cd "$(dirname "$0")/.."
mkdir -p out

run() {
    printf '\n$ pufferkit'
    printf ' %s' "$@"
    printf '\n'
    pufferkit "$@"
}

echo "A week of one person's activity, in steps of five minutes. Entries predict"
echo "one another, so hiding one takes more noise than if they were independent."
echo "How much more?"

run plan --model examples/activity_model.json --epsilon 1 \
    --data examples/week.csv --state activity --time time --plot out/plan.png

echo
echo "Release the histogram with the least noise that hides every entry."

run release examples/week.csv --model examples/activity_model.json --epsilon 1 \
    --state activity --time time --out out/release.json --plot out/release.png

echo
echo "Done. The data are generated (examples/make_week.py). Look at"
echo "  out/plan.png      noise of every mechanism"
echo "  out/release.png   the release with its 95% intervals"
echo "  out/release.json  the release with all it takes to judge it"
