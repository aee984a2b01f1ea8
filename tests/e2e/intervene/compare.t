#!/usr/bin/env bash
# The captures of --compare: wrong calls, in the folders of ditorch's comparison, and no harm to the program if they cannot be
# saved; and --budget, which leaves calls out. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"
WARM=torch._dynamo # imported by embedding, and in part by the first compared backward, on the budget's time
how_many STEPS 600 6000 # enough for all lines to have their turn

# judged OPTION... -- PROGRAM ARGUMENT...: in $T/run, where the captures and the CSV go
judged() {
	rm -rf "$T/run"
	mkdir "$T/run"
	(cd "$T/run" && ditraced "$@")
}

# of SIDE: the folders of saved calls, "device" or "cpu"
of() {
	find "$T/run" -type d -path "*/op_capture_results/torch.nn.functional.gelu/*/autocompare/*/$1" | sort
}

# again SIDE: replay of the saved calls, judging the saved results, in $T/again
again() {
	# shellcheck disable=SC2046
	"$DITRACE" replay --of captured --python "$PY" --format csv $(of "$1") >"$T/again" 2>&1
}

# verdicts ROLE VERDICT: how many
verdicts() {
	grep -c "^torch.nn.functional.gelu,[0-9]*,$1,[0-9]*,$2," "$T/again"
}

opens() {
	local files
	mapfile -d '' -t files < <(find "$T/run" -name '*.pth' -print0)
	alone "$here/intervene/kept_gelus.py" "${files[@]}"
}

saves() {
	rm -rf "$T/run" && mkdir "$T/run"
	(cd "$T/run" && "$DITRACE" run --compare all "$PY" "$W/intervene/device.py" --fault forward --steps 5 >"$T/out" 2>"$T/err")
	is "three calls that are wrong are saved, of five" "$(of device | wc -l)" 3
	like "and that is said" "$T/err" '^ditrace: 3 calls saved, .* at most 3 of each function at a line; ditrace replay'
	like "with each folder" "$T/err" '^ditrace: saved op_tools_results/op_capture_results/torch.nn.functional.gelu/[0-9]+/autocompare/[0-9]+/[-0-9]+$'
	is "with inputs and results of both sides" "$(find "$T/run" -name '*.pth' | wc -l)" 12
	ok "PyTorch opens all of them" opens
	not again device
	is "replay finds them wrong" "$(verdicts output wrong)" 3
	ok "and their references right" again cpu
	is "all three" "$(verdicts output right)" 3
	judged --compare gelu --max-calls 1 -- "$W/intervene/device.py" --fault backward
	is "one call is wanted" "$(of device | wc -l)" 1
	is "with its gradients" "$(find "$T/run" -name '*.pth' | wc -l)" 8
	ok "PyTorch opens them" opens
	not again device
	is "replay finds them wrong, too" "$(verdicts grad wrong)$(verdicts output right)" 11
	if of_first_torch; then
		ok "the two sides can be compared" test -n "$("$DITRACE" diff --python "$PY" "$(of device)" "$(of cpu)" | grep 'dtype float32 against float64')"
	else
		skip "the two sides with another torch: make test-long"
	fi
	judged --compare svd -- "$W/intervene/own_svd.py"
	like "what another kernel may choose is not wrong" "$T/err" '^ +2 +[?] +0 +torch.linalg.svd +not judged: other signs'
	like "and the singular values are judged" "$T/err" 'compare: 0 backward, 2 tensors judged, 4 not$'
	judged --compare all -- "$W/intervene/device.py" --device cpu
	ok "where nothing is wrong, nothing is saved" not test -e "$T/run/op_tools_results/op_capture_results"
}

cannot() {
	alone "$W/intervene/device.py" --fault forward >"$T/plain"
	judged --compare all --max-bytes 1 -- "$W/intervene/device.py" --fault forward
	ok "where there is no room, the program goes on" cmp "$T/plain" "$T/out"
	like "that is said" "$T/err" '^ditrace: .*limit of 1 bytes'
	is "once" "$(grep -c 'no more calls are saved' "$T/err")" 1
	like "and the rest is told" "$T/err" '^ditrace: compare: 1 of '
	rm -rf "$T/run"
	mkdir "$T/run"
	: >"$T/run/op_tools_results"
	(cd "$T/run" && ditraced --compare all -- "$W/intervene/device.py" --fault forward)
	ok "nor does a folder that cannot be made harm it" cmp "$T/plain" "$T/out"
	like "it is named" "$T/err" '^ditrace: .*op_tools_results'
}

# calls FUNCTION [REASON]: how many calls of it, and backwards, were compared, or not compared for that reason
calls() {
	if [ $# = 1 ]; then
		sed -nE "s/^ *([0-9,]+) +[0-9,?]+ +[0-9,]+ .* $1( .*)?\$/\1/p" "$T/err"
	else
		sed -nE "s/^.*[^0-9,]([0-9,]+)  $1 +$2\$/\1/p; s/^.*  $1 +(.*, )?([0-9,]+) $2(,.*)?\$/\2/p" "$T/err"
	fi
}

budgets() {
	judged --compare all --budget 0.001% -- "$W/intervene/device.py" --device cpu --steps 20
	alone "$W/intervene/device.py" --device cpu --steps 20 >"$T/plain"
	ok "with a budget it computes the same" cmp "$T/plain" "$T/out"
	is "no call begins that may take more than there is" "$(calls torch.nn.functional.linear 'is beyond the budget')" 40
	like "the share of the time is told" "$T/err" '^ditrace: compare: it took [0-9.e+-]+ % of the time, of 0.001 % that it may take'
	judged --compare all --budget 50% -- "$W/intervene/device.py" --device cpu --steps "$STEPS"
	like "with time for it all lines have their turn" "$T/err" '^ditrace: compare: all [1-9][0-9,]* right'
	judged --compare all --budget 100% -- "$W/intervene/device.py" --device cpu --steps 3
	is "all of the time is enough for all" "$(calls torch.nn.functional.linear)" 12
	judged --compare all --budget 0.001% --every 2 -- "$W/intervene/device.py" --device cpu --steps 20
	is "beside --every" "$(calls torch.nn.functional.gelu 'is left out by --every')" 10
	is "it counts what that leaves" "$(calls torch.nn.functional.gelu 'is beyond the budget')" 10
}

# Once a line's first call is judged, further calls that are plainly right are compared in a shorter way.
late() {
	local fault found=()
	alone "$W/intervene/late_fault.py" >"$T/plain"
	judged --compare all -- "$W/intervene/late_fault.py"
	ok "random numbers and arguments that are changed stay the same" cmp "$T/plain" "$T/out"
	for fault in gelu tanh_; do
		judged --compare all -- "$W/intervene/late_fault.py" --fault $fault
		is "a fault in $fault that comes late is found, once" "$(grep -c ' WRONG ' "$T/err")" 1
		like "and nothing else" "$T/err" "^torch[.a-zA-Z]*\.$fault  WRONG  .*/late_fault.py:[0-9]+ "
		rm -rf "$T/late_$fault" && mv "$T/run" "$T/late_$fault"
		found+=("$(find "$T/late_$fault" -type d -name device | sort | head -1)")
	done
	of_first_torch || { skip "a replay of them with another torch: make test-long"; return; }
	"$DITRACE" replay --of captured --python "$PY" --format csv "${found[@]}" >"$T/again" 2>/dev/null
	is "with what the calls were given" "$(sed -nE 's/^torch[.a-zA-Z]*\.(gelu|tanh_),.*,output,0*,wrong,.*/\1/p' "$T/again" | sort | xargs)" "gelu tanh_"
}

strides() {
	judged --compare all -- "$W/intervene/strides.py"
	like "what lies in memory with gaps is judged by a reference that does" "$T/err" '^ditrace: compare: (all|none of) [1-9]'
}

allows() {
	judged --compare all -- "$W/intervene/of_cuda.py"
	is "a product of TF32's precision is wrong where that is not allowed" \
		"$(grep -cE '^torch.(mm|spmm)  WRONG  .*/of_cuda.py:[0-9]+ precise' "$T/err")" 2
	is "and right where it is" "$(grep -c ' WRONG ' "$T/err")" 2
	like "which is told" "$T/err" '^ditrace: compare: allowed: TF32 .torch.backends.cuda.matmul.[a-z0-9_]*., of [1-9] results$'
}

compare() {
	strides
	allows
	budgets
	late
	saves
	cannot
}
each_torch forking compare
T=$base
error "no share of the time" 'is no share of the time' "$DITRACE" run --compare all --budget 10 true
error "a budget of nothing" 'the time of --compare, which is not there' "$DITRACE" run --fallback add --budget 10% true
done_testing
