#!/usr/bin/env bash
# Captures do no harm: the training's numbers are the same, whatever happens to ditrace or its disk.
. "$(dirname "$0")/lib.sh"
need_tracing
how_many DITRACE_TEST_KILLS 3 12
kills=$DITRACE_TEST_KILLS
linear=(--ops linear,addmm)

losses() {
	grep -E '^[0-9]+ ' "$1"
}

all_open() {
	"$PY" - "$1" <<-'EOF'
		import glob, json, sys, torch
		files = glob.glob(sys.argv[1] + "/**/*.pth", recursive=True)
		for f in files:
		    assert torch.load(f)["args"]
		for f in glob.glob(sys.argv[1] + "/**/*.json", recursive=True):
		    json.load(open(f))
		print("#", len(files), "files open")
		sys.exit(not files)
	EOF
}

# kill_once N: a capture that is killed at some moment after its first file; the training goes on
kill_once() {
	local tracer before
	start_as tracer "$DITRACE" attach --capture="$T/killed" -o "$T/data" "${linear[@]}" "$child" >/dev/null 2>"$T/kill.err"
	wait_line "$T/kill.err" 'saved' || return 1
	sleep "0.$(printf %03d $((RANDOM % 500)))"
	kill -9 "$tracer"
	wait "$tracer" 2>/dev/null
	before=$(wc -l <"$T/train")
	for _ in {1..300}; do
		[ "$(wc -l <"$T/train")" -gt "$((before + 3))" ] && return 0
		sleep 0.1
	done
	echo "no step after ditrace was killed for the ${1}th time"
	cat "$T/kill.err" | tail -n 3
	return 1
}

killed() {
	start "$PY" train.py --seconds 3000 >"$T/train"
	wait_line "$T/train" '^1 '
	ok "a capture of the forward alone waits for no gradients" timeout 60 "$DITRACE" attach --capture="$T/forward" \
		-o "$T/data" "${linear[@]}" --phase forward --max-calls 3 "$child"
	local i
	for ((i = 1; i <= kills; i++)); do
		ok "killed for the ${i}th time, the training goes on" kill_once "$i"
	done
	ok "nothing is left in its code" python3 "$here/code_unchanged.py" "$child"
	kill -TERM "$child"
	finish "$child"
	is "it ends well" "$status" 0
	ok "all its losses are those of a run without ditrace" same_losses "$T/train"
	ok "every file with its final name opens" all_open "$T/killed"
}

same_numbers() {
	trace --capture="$T/cap" "${linear[@]}" -- "$PY" train.py --steps 4
	is "all steps are made" "$(losses "$T/out" | wc -l)" 4
	ok "the losses with and without capture" same_losses "$T/out"
	like "something was captured" "$T/err" '^ditrace: captured [1-9][0-9]* calls'
}

# ends DESCRIPTION REGEX FOLDER OPTIONS...: a capture of a running program ends by itself with one message
ends() {
	local what=$1 regex=$2 folder=$3
	shift 3
	error "$what" "$regex" "$DITRACE" attach --capture="$folder" -o "$T/data" --ops linear "$@" "$child"
	is "is said once" "$(grep -cE "^ditrace: .*($regex)" "$T/error")" 1
	ok "and the program runs on" kill -0 "$child"
}

troubles() {
	start_busy
	touch "$T/file"
	ends "a folder that cannot be" 'cannot create .*Not a directory' "$T/file/x"
	ends "a limit" 'the limit of .* bytes is reached' "$T/limit" --max-bytes 20k
	ok "what was saved opens" all_open "$T/limit"
	mkdir "$T/full"
	if mount -t tmpfs -o size=200k none "$T/full" 2>/dev/null; then
		ends "a full disk" 'No space left' "$T/full"
		ok "what was saved opens" all_open "$T/full"
		umount "$T/full"
	else
		skip "cannot mount a small file system" 4
	fi
	ok "--max-calls" timeout 60 "$DITRACE" attach --capture="$T/few" -o "$T/data" --ops linear --max-calls 3 "$child"
	is "captures so many and ends" "$(find "$T/few" -name input.pth | wc -l)" 3
	stop_busy
	is "the program ends well" "$status $(tail -n 1 "$T/busy")" "0 ended well True"
}

# as a user without capabilities, who can at most read files that others may not
become=(setpriv --reuid=65534 --regid=65534 --clear-groups)

user() {
	cp "$DITRACE" "$T/ditrace"
	chmod 755 "$base" "$T" "$T/ditrace"
	mkdir -m 777 "$T/open"
	mkdir -m 755 "$T/closed"
	local plain=("${become[@]}" --inh-caps=-all /usr/bin/env HOME=/tmp)
	"${plain[@]}" "$PY" -c 'import torch' 2>/dev/null ||
		plain=("${become[@]}" {--inh-caps,--ambient-caps}=-all,+dac_read_search /usr/bin/env HOME=/tmp)
	if ! "${plain[@]}" "$PY" -c 'import torch' 2>"$T/err"; then
		skip "a plain user cannot run it: $(tail -n 1 "$T/err")" 6
		return
	fi
	start "${plain[@]}" "$PY" "$W/busy.py" >"$T/busy"
	wait_line "$T/busy" '^pid '
	local pid
	pid=$(sed -n 's/^pid //p' "$T/busy")
	ok "a plain user captures in a process of its own" \
		"${plain[@]}" timeout 60 "$T/ditrace" attach --capture="$T/open" -o "$T/open/data" --ops linear --max-calls 5 "$pid"
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
	command -v setpriv >/dev/null && user || skip "no setpriv to become another user with" 6
	killed
}
each_torch harm
done_testing
