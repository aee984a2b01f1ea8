#!/usr/bin/env bash
# Which calls --capture takes: exact counts, by a program that passes each call its number.
. "$(dirname "$0")/../lib.sh"
need_tracing

# picks OPTIONS...: the numbers of the captured calls, by op, of a child of $child to which ditrace attaches before it makes
# them. With the engine bpf the options must choose tanh, too.
picks() {
	local tracer pid
	rm -rf "$T/cap"
	: >"$T/printed" >"$T/err" # so that has_come reads nothing of the one before
	before_long next_pid || echo "no child"
	start_as tracer "$DITRACE" attach --capture="$T/cap" -o "$T/data" --phase forward --print "$@" "$pid" >"$T/printed" 2>"$T/err"
	before_long has_come || echo "it does not come"
	kill -USR1 "$pid"
	finish "$tracer"
	[ "$status" = 0 ] || echo "ditrace: $status"
	echo "$pid" >"$T/last"
	local picked
	picked=$(picked)
	echo "${picked:-$(<"$T/err")}"
}

next_pid() {
	pid=$(sed -n '$s/^pid //p' "$T/picks")
	[ -n "$pid" ] && ! grep -qsx "$pid" "$T/last"
}

# has_come: whether all probes are in place: only then are events printed, or is the engine reported
has_come() {
	grep -q 'aten::tanh' "$T/printed" || grep -q 'the engine is ptrace' "$T/err"
}

picked() {
	python3 "$here/picked_calls.py" "$T/cap" add mul
}

of_steps() {
	"$DITRACE" run --capture="$T/cap" -o "$T/data" --phase forward --ops torch.mul --step 2-3 -- "$PY" capture/picks.py >"$T/out" 2>"$T/err" ||
		echo "ditrace: $?"
	is "--step" "$(picked)" "mul 6 7 8 9 10 11 12 13 14 15;"
	like "the forward alone has no gradients, which is told" "$T/err" '^  no gradients: --phase forward'
	start "$PY" capture/picks.py again >"$T/picks" 2>&1
	is "--steps with counts" "$(picks --ops torch.mul,torch.add --step 2,4 --every 4)" "add 4 11;mul 6 10 19;"
	is "OP_CAPTURE_LIST" "$(OP_CAPTURE_LIST=torch.Tensor.mul,torch.tanh picks --when '"picks.py" in file' --nth 20)" "mul 20;"
	[ -n "${counted:-}" ] || counted
	counted=1
	of_a_view
	kill -9 "$child"
	wait "$child" 2>/dev/null
}

# The first tensor is a view of part of its storage, from which the offset of the storage's size cannot be learned.
of_a_view() {
	"$DITRACE" run --engine ptrace -o "$T/view.data" --capture="$T/view" --ops relu --max-calls 1 "$PY" -c '
import torch
x = torch.ones(16, 16)[:8]
for i in range(3): torch.relu(x)' >"$T/out" 2>"$T/err"
	is "a call is captured whole" "$(find "$T/view" -name '*.pth' -printf '%f\n' | sort | xargs)" "input.pth output.pth"
	like "not one whose inputs cannot be read yet" "$T/err" 'skipped 1 call: where tensors have their parts was not known yet'
}

counted() {
	is "--nth, for each op by itself" "$(picks --ops mul,torch.add,tanh --nth 3,5-6)" "add 3 5 6;mul 3 5 6;"
	is "--every" "$(picks --ops mul,tanh --every 7)" "mul 1 8 15;"
	is "--nth, and of these --every" "$(picks --ops mul,tanh --nth 2-20 --every 7)" "mul 2 9 16;"
	is "--max-calls" "$(picks --ops mul,torch.add --max-calls 6)" "add 1;mul 1 2 3 4 5;"
	is "--when" "$(picks --ops mul --when 'self.shape[0] == 2')" "mul 2 4 6 8 10 12 14 16 18 20;"
	is "--nth counts what --when leaves" "$(picks --ops mul,tanh --when 'self.shape[0] == 2' --nth 2,4)" "mul 4 8;"
	is "--step-op" "$(picks --ops torch.mul --step-op square --step 3)" "mul 11 12 13 14 15;"
	is "OP_CAPTURE_DISABLE_LIST" "$(OP_CAPTURE_DISABLE_LIST=torch.mul picks --ops torch.mul,torch.add,tanh --nth 1)" "add 1;"
	is "both lists" "$(OP_CAPTURE_LIST='torch.*' OP_CAPTURE_DISABLE_LIST=torch.add picks --ops mul,torch.add,tanh --nth 1)" "mul 1;"
	is "--not-ops" "$(picks --ops mul,torch.add,tanh --not-ops torch.add --nth 1)" "mul 1;"
	picks --ops mul --max-bytes 9k >"$T/picked"
	like "--max-bytes takes the first calls" "$T/picked" '^mul 1 2( 3)?;$'
	like "and the exit status is not 0" "$T/picked" '^ditrace: 1$'
	ok "in so many bytes" [ $(($(find "$T/cap" -type f -printf '%s+')0)) -le 9216 ]
	like "it is told" "$T/err" '^ditrace: the limit of 9,?[0-9]+ bytes is reached'
	like "the trace is there, and that is said" "$T/err" '^trace written to'
	like "with a way out" "$T/err" '^  hint: .'
	is "once" "$(grep -c 'limit of' "$T/err")" 1
	for wrong in '--nth 0' '--step 3-1' '--every x'; do
		error "$wrong" 'nth|step|every' "$DITRACE" run -o "$T/no.data" --capture="$T/no" $wrong -- touch "$T/started"
	done
	before_long next_pid
	error "--when on results" 'cannot ask for results' "$DITRACE" attach -o "$T/no.data" --capture="$T/no" --when 'numel(out) > 3' "$pid"
	error "--engine bpf" 'stops none' "$DITRACE" run -o "$T/no.data" --engine bpf --capture="$T/no" -- touch "$T/started"
	ok "and started no program" not test -e "$T/started"
}
each_torch of_steps
done_testing
