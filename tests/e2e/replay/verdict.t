#!/usr/bin/env bash
# The verdict on a corpus of correct and wrong kernels: no false alarm, few misses. tests/corpus has more.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"

# corpus MAKER ARGUMENT...
corpus() {
	local maker=$1
	shift
	rm -rf "$T/corpus"
	"$WARMED" "$top/tests/corpus/$maker.py" "$T/corpus" "$@" 2>"$T/made" || return 1
	sed 's/^/# /' "$T/made"
	timeout 600 "$DITRACE" replay --python "$WARMED" --of captured --format json --detail --jobs 2 "$T/corpus/captures" \
		>"$T/verdicts" 2>"$T/err"
	python3 "$top/tests/corpus/judge.py" "$T/corpus" "$T/verdicts" --detail >"$T/report"
	local status=$?
	head -n 12 "$T/report" | cut -c 1-96 | sed 's/^/# /'
	[ $status = 0 ] || { tail -n 30 "$T/report" && return 1; }
}

verdicts() {
	local part=() least=1000
	if ! in_long; then
		of_first_torch && part=(--part 4) || part=(--part 0)
		least=150
		skip "an op's results in other dtypes: make test-long"
	fi
	ok "no correct kernel is called wrong, fewer than 3 % of the faults are missed" corpus make --seeds 1 --sizes 1 "${part[@]}"
	ok "of at least $least" [ "$(sed -n 's/.* \([0-9]*\) faults$/\1/p' "$T/made")" -ge $least ]
	if of_first_torch; then
		ok "also of gradients that come from a rounded result" corpus make --seeds 1 --ranges --ops torch.sigmoid
	else
		skip "those of another PyTorch: make test-long"
	fi
	if in_long; then
		ok "sums that any number of threads has a part of are not wrong" corpus threads
	elif of_first_torch; then
		ok "sums that any number of threads has a part of are not wrong" corpus threads --sizes 1 --threads 1,3,8 --dtypes bfloat16
	else
		skip "sums of several threads: make test-long"
	fi
	ok "what PyTorch's settings allow a device to round is not wrong either, nor hides it faults" corpus devices cuda:0 --sizes 1
	if [ "${TORCH%%.*}" = 1 ]; then
		skip "on the CPU it is a fault: one of 20 is missed, a convolution in bfloat16 that is rounded before its bias"
	else
		ok "on the CPU, which does not round so, it is a fault" corpus devices cpu --sizes 1
	fi
}
each_torch warm verdicts
done_testing
