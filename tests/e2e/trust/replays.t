#!/usr/bin/env bash
# What a stranger has packed, the captures and the folder they lie in, does no harm to whoever replays or compares it.
. "$(dirname "$0")/../lib.sh"

# Modules that are found first in the current folder
lay_modules() {
	local name
	for name in importlib os sys torch warnings json mmap zipfile encodings io collections numpy; do
		echo "open('$T/imported', 'a').write('$name\n')" >"$T/$name.py"
	done
}

# refused ID REGEX
refused() {
	verify replay/reason "$T/json" "$1" "$2"
}

# below_2_gib: what the processes took
below_2_gib() {
	local n
	n=$(<"$T/peak")
	echo "$n MiB"
	[ "$n" -lt 2048 ]
}

unharmed() {
	ok "$1: no module of the current folder was run" [ ! -e "$T/imported" ]
	ok "$1: no file was written" [ ! -e "$T/harmed" ]
	ok "$1: no bomb took its memory" below_2_gib
}

replayed() {
	timeout "$PATIENCE" python3 "$here/trust/peak.py" "$T/peak" env PYTHONPATH=: "$DITRACE" replay --python "$PY" --of captured \
		--format json captures >"$T/json" 2>"$T/err"
	is "status 2: something was not run" $? 2
	unharmed replay
	is "the good ones are right" "$(grep -c '"verdict":"right"' "$T/json")" 2
	is "every other has a reason" "$(grep -c '"verdict":"not run"' "$T/json")" 16
	is "or computes nothing" "$(grep -c '"verdict":"not compared".*tells of something' "$T/json")" 1
	ok "a file to write, by operator" refused 2 'from_file .*takes the name of a file'
	ok "by overload" refused 3 'from_file.default .*takes the name of a file'
	ok "a file to save to" refused 4 'aten::save .*takes the name of a file'
	ok "by dots" refused 5 'from_file .*takes the name of a file'
	ok "a namespace of TorchScript" refused 6 'prim is not for'
	ok "one of other processes" refused 7 'c10d is not for'
	ok "a state to set" refused 9 'no op that computes'
	ok "a pickle that calls" refused 10 'wants (posix|nt).system'
	ok "a function as an argument" refused 11 'wants torch.load as a layout'
	ok "a compressed storage" refused 12 'would take 1.5 GiB of memory, and the file has [0-9.]+ MiB; .*--max-bytes 1537M'
	ok "strides of 0" refused 13 'its tensors would take 4.0 GiB of memory.*--max-bytes 4096M'
	ok "nests in nests" refused 14 'more than 1,000,000 values'
	ok "a range of sizes" refused 15 'wants a Size of a range'
	ok "a pipe" refused 16 'grad_outputs.pth: it is no file'
	ok "a result of 4 TiB" refused 19 'would take 4.0 TiB more memory, and [0-9.]+ GiB are left for it'
	ok "a file of a hole" refused 17 'would take 1.5 GiB of memory, and the file has [0-9.]+ MiB'
}

chosen() {
	timeout "$PATIENCE" python3 "$here/trust/peak.py" "$T/peak" env PYTHONPATH=: "$DITRACE" replay --of captured \
		--when 'self.numel() > 0' --format json captures/torch.neg/7/{1,18} >"$T/json" 2>"$T/err"
	is "--when looks, and finds a Python of its own" "$(grep -c '"verdict":"right"' "$T/json")" 2
	ok "no module of the current folder is run by that" [ ! -e "$T/imported" ]
}

compared() {
	timeout "$PATIENCE" python3 "$here/trust/peak.py" "$T/peak" env PYTHONPATH=: "$DITRACE" diff --python "$PY" captures captures \
		>"$T/out" 2>"$T/err"
	unharmed diff
	like "diff says what it could not compare" "$T/out" 'would take 1.5 GiB of memory'
}

looked_after() {
	"$DITRACE" doctor >"$T/doctor" 2>&1
	ok "doctor runs no module of the current folder" [ ! -e "$T/imported" ]
}

all() {
	"$(warmed)" trust/hostile_captures.py "$T"
	lay_modules
	cd "$T" || exit 1
	replayed
	of_first_torch || { skip "diff, --when and doctor were with another torch: make test-long" 7; return; }
	chosen
	compared
	looked_after
}

sandboxed() {
	first_torch
	"$(warmed)" replay/bad_captures.py "$T/bad"
	error "a sandbox that is not there" 'needs bwrap' env PATH="$T/none" "$DITRACE" replay --python "$PY" --sandbox "$T/bad"
	if ! bwrap --unshare-all --ro-bind / / --proc /proc true 2>"$T/bwrap"; then
		skip "no sandbox can be made here: $(head -n 1 "$T/bwrap")" 2
		return
	fi
	timeout "$PATIENCE" "$DITRACE" replay --python "$PY" --sandbox --trust --of captured --ops add,system --format json "$T/bad" \
		>"$T/json" 2>"$T/err"
	ok "the good ones are right in it" [ "$(grep -c '"verdict":"right"' "$T/json")" -ge 2 ]
	ok "what is trusted writes nothing" [ ! -e "$T/bad/harmed" ]
}

each_torch all
sandboxed
done_testing
