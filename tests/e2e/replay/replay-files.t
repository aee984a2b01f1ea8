#!/usr/bin/env bash
# Damaged and malicious captures: each is refused with a reason, none has an effect, the others run.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../warm.sh"

# reason ID REGEX: the call was not run, and says why
reason() {
	verify replay/reason "$T/json" "$1" "$2"
}

right() {
	python3 -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(rows)
assert sorted(r["id"] for r in rows if r["verdict"] == "right") == [1, 22]' "$T/json"
}

bad_files() {
	"$WARMED" replay/bad_captures.py "$T/bad"
	rm -f "$T/bad/harmed"
	timeout "$PATIENCE" "$DITRACE" replay --python "$WARMED" --of captured --format json "$T/bad" >"$T/json" 2>"$T/err"
	is "status 2: something could not be run" $? 2
	ok "the good ones are right" right
	ok "a cut zip" reason 2 'input.pth: .*zip'
	ok "a storage that is missing" reason 3 'storage data/0 is missing'
	ok "a storage that is too short" reason 4 'data/0 has 8 bytes instead of 24'
	ok "a tensor beyond its storage" reason 5 'reaches beyond its storage'
	ok "a cut pickle" reason 6 'input.pth: '
	ok "a pickle that calls os.system" reason 7 'wants (posix|os|nt).system, which is more than numbers'
	ok "an op named os.system" reason 8 'os.system is no op of PyTorch'
	ok "an op named torch.os.system" reason 9 'torch.os.system is no op of PyTorch'
	ok "a library to load" reason 10 'no op|no operator'
	ok "a file to write" reason 11 'no op that computes'
	ok "a pickle that calls eval" reason 12 'wants .*eval'
	ok "a pickle that calls getattr" reason 13 'wants .*getattr'
	ok "a pickle that changes a class" reason 14 'state of type|wants to set'
	ok "no zip" reason 15 'zip'
	ok "the format before 1.6" reason 16 'zip'
	ok "no capture" reason 17 'has not the name, args and kwargs'
	ok "an op that throws" reason 18 'RuntimeError: The size of tensor'
	ok "an op that this PyTorch has not" reason 19 'has no torch.no_such_op'
	ok "a capture without results" reason 21 'no output.pth'
	ok "and nobody was harmed" [ ! -e "$T/bad/harmed" ]

	timeout "$PATIENCE" "$DITRACE" replay --python "$WARMED" --trust --of captured --format json --not-ops os.system,system \
		"$T/bad" >"$T/json" 2>"$T/err"
	ok "an op that ends Python costs only its own result" reason 20 'ended the Python process: exit status 3'
	ok "the ones after it are judged" grep -q '"id":22.*"verdict":"right"' "$T/json"

	error "no such folder" 'cannot read .*/none' "$DITRACE" replay "$T/none"
	mkdir "$T/empty"
	error "a folder without captures" 'there is no capture in' "$DITRACE" replay "$T/empty"
	error "an interpreter that is none" 'cannot (start|run)' "$DITRACE" replay --python "$T/none" "$T/bad"
	error "an interpreter without PyTorch" 'cannot run ops' "$DITRACE" replay --python /bin/false "$T/bad"
	error "ops that no capture has" 'none of the 22 captures' "$DITRACE" replay --ops conv2d "$T/bad"
}

# Once only: PyTorch does not read them.
tolerance() {
	AUTOCOMPARE_ERROR_TOLERANCE=x error "a tolerance that is none" 'not two numbers' \
		"$DITRACE" replay --python "$WARMED" --ops add "$T/bad"
}

# A long path, and one that is not UTF-8.
odd_paths() {
	local long=$T/long/$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})/$(printf 'f%.0s' {1..200}) odd=$T/odd/$'b\xffd'
	mkdir -p "$long" "$odd"
	cp -r "$T/bad/op_tools_results" "$long"
	rm -r "$long"/op_tools_results/op_capture_results/[!t]* "$long"/op_tools_results/op_capture_results/torch.[!a]* \
		"$long"/op_tools_results/op_capture_results/torch.add/7/{[2-9],1[0-9],21}
	cp -r "$long/op_tools_results" "$odd"
	rm -r "$odd"/op_tools_results/op_capture_results/torch.add/7/22
	timeout "$PATIENCE" "$DITRACE" replay --python "$WARMED" --of captured --format json --detail "$long" >"$T/json" 2>"$T/err"
	is "a long path is no reason not to judge" $? 0
	ok "and is written whole" verify replay/long_paths "$T/json" "$T/long/"
	timeout "$PATIENCE" "$DITRACE" replay --python "$WARMED" --of captured --format json --detail "$T/odd" "$long" >"$T/json" 2>"$T/err"
	is "status 2: a path that is not UTF-8" $? 2
	like "gives its reason" "$T/json" '"id":1,.*"not run".*not UTF-8.*b\\\\xffd'
	is "the others are judged" "$(grep -c '"verdict":"right"' "$T/json")" 2
	timeout "$PATIENCE" "$DITRACE" diff --python "$WARMED" "$T/odd" "$T/odd" >"$T/out" 2>"$T/err"
	is "diff ends with it, too" $? 2
}

all() {
	bad_files
	if of_first_torch; then
		tolerance
		odd_paths
	else
		skip "paths and tolerances were of another torch: make test-long"
	fi
}
each_torch warm all
done_testing
