#!/usr/bin/env bash
# A training that is traced outlives what happens to ditrace, to the machine and to itself, and computes the same numbers. The
# table is of all that happened: under make test-long each fault meets 11 trainings under each engine, in make test some meet one.
# PARTS chooses engines and faults, by a word of their names, so that several can run side by side: PARTS="shim disk memory".
. "$(dirname "$0")/../lib.sh"
need_tracing
how_many TIMES 0 11

faults() {
	# shellcheck disable=SC2086 # words
	"$PY" "$here/engine/faults.py" "$DITRACE" "$T" "$TIMES" ${PARTS:-} | tee "$T/table"
	ok "no training was harmed" [ "${PIPESTATUS[0]}" = 0 ]
	like "and many were traced" "$T/table" ' [1-9][0-9]* traced'
}

all() {
	of_first_torch || { skip "with another torch: make test-long" 2; return; }
	faults
}
each_torch all
done_testing
