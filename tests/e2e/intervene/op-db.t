#!/usr/bin/env bash
# PyTorch's own database of operators under --compare: no false alarm, nothing fails that does not fail untraced. Some
# operators; make test-long has all.
. "$(dirname "$0")/../lib.sh"
need_tracing
export PYTHONPATH=${BUILD:-build}/op-db

verdicts() {
	local step=60
	! in_long || step=1
	"$PY" -W ignore -c 'import expecttest, numpy' 2>"$T/lacks" || { skip "$(tail -n 1 "$T/lacks")" 3 && return; }
	"$DITRACE" run --compare all --level "$1" -- "$PY" replay/op_db.py $step 7 >"$T/out" 2>"$T/err"
	is "level $1: the same fails as without" "$(cat "$T/out")" "$(untraced replay/op_db.py $step 7)"
	like "level $1: operators were called" "$T/out" '^operators: [1-9]'
	like "level $1: no false alarm" "$T/err" '^ditrace: compare: (all|none of) [1-9]'
}
for level in torch aten; do
	each_torch verdicts $level
done
done_testing
