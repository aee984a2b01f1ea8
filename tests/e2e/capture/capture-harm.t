#!/usr/bin/env bash
# Captures do no harm: the losses of the training are the same, whatever happens to ditrace or its disk.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../attached.sh"
need_tracing
how_many DITRACE_TEST_KILLS 3 12
kills=$DITRACE_TEST_KILLS
WARM=torch._dynamo # imported by optimizers
linear=(--ops linear,addmm)

losses() {
	grep -E '^[0-9]+ ' "$1"
}

all_open() {
	alone "$here/capture/opens.py" "$1"
}

rounds() {
	grep -c '^always ' "$T/out"
}

go_on() {
	[ "$(rounds)" -ge $((before + 2)) ]
}

# kill_once: a capture is killed at a random time after its first file; the training goes on
kill_once() {
	local tracer before
	start_as tracer "$DITRACE" attach --capture="$T/killed" -o "$T/data" "${linear[@]}" "$target" >/dev/null 2>"$T/kill.err"
	wait_line "$T/kill.err" 'saved' || return 1
	sleep "0.$(printf %03d $((RANDOM % 500)))"
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	before=$(rounds)
	before_long go_on || { tail -n 3 "$T/kill.err" && false; }
}

killed() {
	ok "a training runs" begin '^always ' -c 'import io, sys; sys.stdin = io.StringIO("always\n"); import on_line'
	ok "a capture of the forward alone waits for no gradients" timeout "$PATIENCE" "$DITRACE" attach --capture="$T/forward" \
		-o "$T/data" "${linear[@]}" --phase forward --max-calls 3 "$target"
	local i
	for ((i = 1; i <= kills; i++)); do
		ok "killed for the ${i}th time, the training goes on" kill_once
	done
	ok "nothing is left in its code" python3 "$here/code_unchanged.py" "$target"
	kill -TERM "$target"
	the_end
	is "it ends well" "$status $(tail -n 1 "$T/out")" "0 ended well"
	is "all its losses are those from before" "$(grep '^always ' "$T/out" | sort -u)" "$(grep -m 1 '^always ' "$T/out")"
	ok "every file with its final name opens" all_open "$T/killed"
}

same_numbers() {
	attached --capture="$T/cap" --ops linear,addmm,relu -- train.py --steps 3
	is "all steps are made" "$(losses "$T/out" | wc -l)" 3
	ok "the losses with and without capture" same_losses "$T/out"
	like "something was captured" "$T/err" '^ditrace: captured [1-9][0-9]* calls'
	ok "of the training, too" [ -n "$(find "$T/cap" -path '*.linear/*input.pth' -o -path '*.addmm/*input.pth')" ]
}

# ends DESCRIPTION REGEX FOLDER OPTIONS...: a capture of a running program ends by itself with one error message
ends() {
	local what=$1 regex=$2 folder=$3
	shift 3
	error "$what" "$regex" "$DITRACE" attach --capture="$folder" -o "$T/data" --ops linear "$@" "$target"
	is "is said once" "$(grep -cE "^ditrace: .*($regex)" "$T/error")" 1
	ok "and the program runs on" kill -0 "$target"
}

troubles() {
	ok "a program runs" begin '^pid ' paced.py
	touch "$T/file"
	ends "a folder that cannot be" 'cannot (make the folder|write) .*Not a directory' "$T/file/x"
	ends "a limit" 'the limit of .* bytes is reached' "$T/limit" --max-bytes 20k
	mkdir "$T/full"
	if mount -t tmpfs -o size=200k none "$T/full" 2>/dev/null; then
		ends "a full disk" 'No space left' "$T/full"
		cp -r "$T/full" "$T/from_full"
		umount "$T/full"
	else
		skip "cannot mount a small file system" 3
	fi
	ok "--max-calls" timeout "$PATIENCE" "$DITRACE" attach --capture="$T/few" -o "$T/data" --ops linear --max-calls 3 "$target"
	is "captures so many and ends" "$(find "$T/few" -name input.pth | wc -l)" 3
	kill -TERM "$target"
	the_end
	is "the program ends well" "$status $(tail -n 1 "$T/out")" "0 ended well True"
	ok "what was saved up to the limit opens" all_open "$T/limit"
	[ ! -e "$T/from_full" ] || ok "and before the disk was full" all_open "$T/from_full"
}

# as a user without capabilities, except at most that to read any file
become=(setpriv --reuid=65534 --regid=65534 --clear-groups)

# begins COMMAND...: whether paced.py, started by it, gets to printing its pid
begins() {
	start "$@" "$PY" "$W/paced.py" >"$T/busy" 2>"$T/err"
	before_long begun_or_ended
	grep -q '^pid ' "$T/busy"
}

begun_or_ended() {
	grep -q '^pid ' "$T/busy" || ! kill -0 "$child" 2>/dev/null
}

user() {
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	mkdir -m 755 "$T/closed"
	local plain=("${become[@]}" --inh-caps=-all /usr/bin/env HOME=/tmp)
	if ! begins "${plain[@]}"; then
		plain=("${become[@]}" {--inh-caps,--ambient-caps}=-all,+dac_read_search /usr/bin/env HOME=/tmp)
		begins "${plain[@]}" || { skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 6; return; }
	fi
	local pid
	pid=$(sed -n 's/^pid //p' "$T/busy")
	ok "a plain user captures in a process of its own" \
		"${plain[@]}" timeout "$PATIENCE" "$T/ditrace" attach --capture="$T/open" -o "$T/open/data" --ops linear --max-calls 5 "$pid"
	local skipped
	skipped=$(sed -nE 's/^ +skipped ([0-9]+) files?: .*/\1/p' "$base/ok.out")
	is "so many calls, each with its files, or the reason why not" \
		"$(($(find "$T/open" -name input.pth -o -name output.pth | wc -l) + ${skipped:-0}))" 10
	ok "which open" all_open "$T/open"
	error "not into a folder of others" 'Permission denied' \
		"${plain[@]}" "$T/ditrace" attach --capture="$T/closed" -o "$T/open/data" --ops linear "$pid"
	kill -TERM "$pid"
	finish "$child"
	is "the program ends well" "$status" 0
}

harm() {
	same_numbers
	troubles
	if ! of_first_torch; then
		skip "another user's captures were of another torch: make test-long" 6
	else
		command -v setpriv >/dev/null && user || skip "no setpriv to become another user with" 6
	fi
	killed
}
each_torch forking harm
done_testing
