#!/usr/bin/env bash
# One wrong kernel among those of hundreds of functions: --compare names it and nothing else; --fallback for it alone suffices.
# Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
WARM=torch.fx.experimental.symbolic_shapes # imported by gradients of what was given

# change OPTION... -- ARGUMENT...: with the arguments of the workload
change() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	(cd "$T" && ditraced "${options[@]}" -- "$W/intervene/hundreds.py" "${@:2}")
}

fault() {
	local functions line
	line=$(grep -n 'F.hardswish(u)' "$W/intervene/hundreds.py" | cut -d: -f1)
	change --compare all --every 1000 -- --fault "$1"
	is "a fault in a $1 kernel, and no other" "$(grep -c ' WRONG ' "$T/err")" 1
	like "at its line" "$T/err" "^torch.nn.functional.hardswish  WRONG  .*/hundreds.py:$line results "
	functions=$(sed -nE 's/^ditrace: compare: 1 of ([0-9]+) functions at their lines wrong.*/\1/p' "$T/err")
	ok "among ${functions:-no} functions" test "${functions:-0}" -ge 300
	alone intervene/hundreds.py --steps 2 --fault "$1" >"$T/wrong"
	ok "it changes the losses" not cmp "$T/wrong" "$T/right"
	change --fallback hardswish -- --steps 2 --fault "$1"
	ok "but not with that function on the CPU" cmp "$T/out" "$T/right"
}

faults() {
	alone intervene/hundreds.py --steps 2 >"$T/right"
	like "the workload works" "$T/right" '^1 '
	fault backward
	of_first_torch || { skip "a fault in a forward kernel with another torch: make test-long"; return; }
	fault forward
}
each_torch forking faults
done_testing
