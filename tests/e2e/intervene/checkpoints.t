#!/usr/bin/env bash
# Functions that torch.utils.checkpoint computes again in backward are changed as they were in forward: a training with
# checkpoints computes what it does without. Needs no privileges.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../forked.sh"

# both OPTION...: the training with checkpoints, and without in $T/plain
both() {
	ditraced "$@" -- "$W/intervene/checkpointed.py" plain
	cp "$T/out" "$T/plain"
	cp "$T/err" "$T/plain.err"
	ok "$*: a training with checkpoints ends well" ditraced "$@" -- "$W/intervene/checkpointed.py"
	as_plain "$@"
}

as_plain() {
	ok "$*: with the numbers of one without" same "$(cat "$T/plain")" "$(cat "$T/out")"
}

calls() {
	sed -nE 's/^ditrace: cast: ([0-9]+) calls .*/\1/p' "$T/$1"
}

all() {
	local level
	cd "$T" || return
	for level in torch aten; do
		both --level "$level" --cast 'bfloat16->float32'
		ok "more calls are cast" [ "$(calls err)" -gt "$(calls plain.err)" ]
		[ $level = torch ] || continue
		"$DITRACE" run --level torch --cast 'bfloat16->float32' "$PY" "$W/intervene/checkpointed.py" >"$T/out" 2>"$T/err"
		as_plain run
	done
	alone "$W/intervene/checkpointed.py" >"$T/alone"
	both --compare all
	ok "as alone" cmp "$T/alone" "$T/out"
	both --level aten --compare all
	ok "as alone" cmp "$T/alone" "$T/out"
	both --fallback-all --overflow
	ok "as alone" cmp "$T/alone" "$T/out"
}

each_torch forking all
done_testing
