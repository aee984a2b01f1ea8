#!/usr/bin/env bash
# Functions that torch.utils.checkpoint computes again in backward are changed as they were in forward: a training with
# checkpoints computes what it does without. Needs no privileges.
. "$(dirname "$0")/../lib.sh"

# both OPTION...: the training with checkpoints, and without in $T/plain
both() {
	(cd "$T" && "$DITRACE" run "$@" -- "$PY" "$W/intervene/checkpointed.py" plain >plain 2>plain.err)
	(cd "$T" && "$DITRACE" run "$@" -- "$PY" "$W/intervene/checkpointed.py" >out 2>err)
	is "$*: a training with checkpoints ends well" $? 0
	ok "$*: with the numbers of one without" same "$(cat "$T/plain")" "$(cat "$T/out")"
}

calls() {
	sed -nE 's/^ditrace: cast: ([0-9]+) calls .*/\1/p' "$T/$1"
}

all() {
	local level
	for level in torch aten; do
		both --level "$level" --cast 'bfloat16->float32'
		ok "more calls are cast" [ "$(calls err)" -gt "$(calls plain.err)" ]
	done
	"$PY" "$W/intervene/checkpointed.py" >"$T/alone" 2>"$T/alone.err"
	both --compare all
	ok "as alone" cmp "$T/alone" "$T/out"
	both --level aten --compare all
	ok "as alone" cmp "$T/alone" "$T/out"
	both --fallback-all --overflow
	ok "as alone" cmp "$T/alone" "$T/out"
}

each_torch all
done_testing
