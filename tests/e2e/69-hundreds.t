#!/usr/bin/env bash
# One wrong kernel among those of hundreds of functions: --compare names it, and nothing else; --fallback of it is
# enough. It needs no privilege.
. "$(dirname "$0")/lib.sh"

# change OPTION... -- ARGUMENT...: of the workload
change() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1") && shift; done
	(cd "$T" && "$DITRACE" run "${options[@]}" "$PY" "$W/hundreds.py" "${@:2}" >out 2>err)
}

faults() {
	local fault functions line
	line=$(grep -n 'F.hardswish(u)' "$W/hundreds.py" | cut -d: -f1)
	"$PY" "$W/hundreds.py" --steps 2 >"$T/right" 2>/dev/null
	like "the workload works" "$T/right" '^1 '
	for fault in forward backward; do
		change --compare all --sample 1/1000 -- --fault $fault
		is "a fault in a $fault kernel, and no other" "$(grep -c ' WRONG ' "$T/err")" 1
		like "at its line" "$T/err" "^torch.nn.functional.hardswish  WRONG  .*/hundreds.py:$line results "
		functions=$(sed -nE 's/^ditrace: compare: 1 of ([0-9]+) functions at their lines wrong.*/\1/p' "$T/err")
		ok "among ${functions:-no} functions" test "${functions:-0}" -ge 300
		"$PY" "$W/hundreds.py" --steps 2 --fault $fault >"$T/wrong" 2>/dev/null
		ok "it changes the losses" not cmp "$T/wrong" "$T/right"
		change --fallback hardswish -- --steps 2 --fault $fault
		ok "but not with that function on the CPU" cmp "$T/out" "$T/right"
	done
}
each_torch faults
done_testing
