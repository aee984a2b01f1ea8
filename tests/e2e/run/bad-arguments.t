#!/usr/bin/env bash
# Invalid arguments: a clear error with a hint, and a nonzero exit status.
. "$(dirname "$0")/../lib.sh"
need_tracing
first_torch

error "no such PID" 'no (such )?process|does not exist' "$DITRACE" attach 4194303
error "not a PID" . "$DITRACE" attach abc
error "PID 0" . "$DITRACE" attach 0
error "a negative PID" . "$DITRACE" attach -- -5
error "a PID out of range" . "$DITRACE" attach 99999999999999999999
error "no PID" . "$DITRACE" attach
error "an unknown command" . "$DITRACE" frobnicate
error "an unknown option" . "$DITRACE" run --frobnicate -- true
error "nothing to run" . "$DITRACE" run
error "a program that is not there" 'nothing/here' "$DITRACE" run -o "$T/data" -- /nothing/here
error "a time that is none" 'soon' "$DITRACE" attach $$ --for soon
error "a negative time" . "$DITRACE" attach $$ --for -3s
error "a count that is none" 'many' "$DITRACE" attach $$ --count many
error "a depth that is none" 'deep' "$DITRACE" run --depth deep -o "$T/data" -- true
error "depth 0" . "$DITRACE" run --depth 0 -o "$T/data" -- true
error "a phase that is none" 'sideways' "$DITRACE" run --phase sideways -o "$T/data" -- true
error "a format that is none" 'xml' "$DITRACE" script --format xml "$T/data"
error "an export that is none" 'nowhere' "$DITRACE" export "$T/data" --to nowhere
error "two exports at once" '--format folded and --to csv are two values' "$DITRACE" export "$T/data" --format folded --to csv
error "an output in a folder that is not there" 'nothing' "$DITRACE" run -o /nothing/here/data -- true
error "an output on a read-only filesystem" . "$DITRACE" run -o /proc/ditrace.data -- true

mkdir "$T/empty"

# wrong REGEX COMMAND LINE...: exit status 2, and an error and a hint, before anything is done
wrong() {
	ok "${*:2}" is_wrong "$@"
}

is_wrong() {
	local status=0
	(cd "$T/empty" && "$DITRACE" "${@:2}" >"$T/wrong.out" 2>"$T/wrong.err" </dev/null) || status=$?
	same "$status" 2 && [ ! -s "$T/wrong.out" ] && found "$T/wrong.err" "$1" && found "$T/wrong.err" "^  hint: "
}

# Each line: a part of the error, and what follows "ditrace". Were the program started, it would write to standard output.
while read -r part line; do
	wrong "$part" $line
done <<-EOL
	depth attach 1 --depth 0
	process attach abc
	process attach 0
	count attach 1 --count 0
	depth run --depth 0 -- echo started
	buffer run --buffer 1k -- echo started
	buffer attach 1 --buffer 65M
	dtypes run --cast float16 -- echo started
	expression run --ops [ -- echo started
	empty run --not-ops , -- echo started
	missing run --when ( -- echo started
	nth run --nth x --capture -- echo started
	before run --capture --nth 3-1 -- echo started
	every run --capture --every 0 -- echo started
	max-calls run --capture --max-calls 0 -- echo started
	--capture run --nth 3 -- echo started
	--capture run --every 3 -- echo started
	--step run --capture --step-op add -- echo started
	--compare run --budget 10% -- echo started
	--fallback run --level aten -- echo started
	hold run --first-nan=x -- echo started
	turns run --measure-overhead=7 -- echo started
	--stats run --measure-overhead --stats -- echo started
	traps attach 1 --measure-overhead --engine ptrace
	samples run --sample=0 -- echo started
	share run --compare all --budget x -- echo started
	feature run --apply foo -- echo started
	--level run --overflow --level aten --print -- echo started
	nobody run --user nobody-there -- echo started
	--fallback run --falback add -- echo started
	freq record -F 0 -- echo started
	process record --pid abc
	time attach 1 --for 0
	dtypes attach 1 --cast float16
	LIST run --compare -- echo started
	empty run --fallback , -- echo started
	time record --for 0 -- echo started
	depth top --depth 0 1
	expression top --ops [ 1
	recorded top --speed 2 1
	recorded top --ops add $T/none
	--trace top -o $T/none 1
	--count stack --interval 1s 1
	process stack -p abc
	many doctor -p 1 2
	--for monitor --for 100ms 1
	one monitor 1 2
	one monitor --tree 1
	--count monitor --prometheus 9101 --count 3 1
	--interval monitor --prometheus 9101 --interval 2s 1
	port monitor --prometheus 99999 1
	port attach --prometheus :9101 1
	port run --prometheus x -- echo started
	file top -p 1 2
	--for run --for 1s --fallback add -- echo started
	run-times replay --run-times 0 $T/none
	missing annotate --when ((( -i $T/none
	--step annotate --step-op add -i $T/none
	foo report --sort foo $T/none
	foo report --group foo $T/none
	foo report --columns foo $T/none
	xx report --time xx $T/none
	number report --step x $T/none
	--step report --step-op add $T/none
	percentage report --percent-limit x $T/none
	graph report --frames ops $T/none
	--gaps report --gaps --side-by-side $T/none
	--per-step report --per-step --format csv $T/none
	missing report --when ( $T/none
	xx script --time xx $T/none
	jsonl script --stats $T/none
	database export --to sqlite $T/none
	xx export --time xx $T/none
	report repotr
EOL
is "and nothing was written" "$(ls -A "$T/empty")" ""

# What can be said only of the program's own PyTorch is found while it is imported.
refused() {
	local status=0
	"$DITRACE" run "$@" -o "$T/data" "$PY" -c 'import torch, time; time.sleep(36000)' >"$T/refused.out" 2>"$T/refused.err" || status=$?
	same "$status" 2 && found "$T/refused.err" '^  hint: near it: ' && found "$T/refused.err" 'is ended; --keep-going'
}

for option in --ops --not-ops --fallback --compare; do
	ok "$option: a name that PyTorch does not have" refused "$option" gleu
done
ok "--when: an argument that no op has" refused --ops glu --when 'self.dim() > 1 and sel.dim() > 1'
"$DITRACE" run --fallback gleu --keep-going "$PY" -c 'import torch; print("went on")' >"$T/refused.out" 2>"$T/refused.err"
is "--keep-going: the program's status" "$?" 0
like "it goes on" "$T/refused.out" '^went on'
like "and that is said" "$T/refused.err" 'no function "gleu"'

start sleep 36000
error "attach to a program without PyTorch" '[Tt]orch' "$DITRACE" attach "$child" -o "$T/data"
ok "the hint speaks of --wait" found "$T/error" 'hint: .*--wait'
error "a kernel thread" . "$DITRACE" attach 2 -o "$T/data"
start "$PY" -c 'import time; print("ready", flush=True); time.sleep(36000)' >"$T/ready"
ok "a Python runs" wait_line "$T/ready" ready
error "a Python without PyTorch" '[Tt]orch' "$DITRACE" attach "$child" -o "$T/data"

mkdir "$T/unknown"
echo 'int torch_of_nobody(void) { return 1; }' >"$T/unknown.c"
if gcc -shared -fPIC -s -o "$T/unknown/libtorch_cpu.so" "$T/unknown.c" 2>/dev/null; then
	start "$PY" -c "import ctypes, time; ctypes.CDLL('$T/unknown/libtorch_cpu.so'); print('loaded', flush=True); time.sleep(36000)" >"$T/loaded"
	ok "one with a libtorch of nobody runs" wait_line "$T/loaded" loaded
	error "a libtorch without ops" 'libtorch_cpu' "$DITRACE" attach "$child" -o "$T/data"
	head -c 3000 "$T/unknown/libtorch_cpu.so" >"$T/broken.so"
	ok "the target lives on" kill -0 "$child"
else
	skip "no C compiler to make an unknown libtorch with" 3
fi
done_testing
