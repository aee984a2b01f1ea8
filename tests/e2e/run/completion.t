#!/usr/bin/env bash
# Completion in the shells: commands, options, their values, processes, files, and the program that is started.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || skip_all "$DITRACE is not built"
cd "$T" || exit 1
touch trace.data

# in_SHELL WORD...: what the last word of "ditrace WORD..." becomes, sorted, on a line
in_bash() {
	bash --norc -c '. "$1"/completion/ditrace.bash && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _ditrace &&
		printf "%s\n" "${COMPREPLY[@]}"' bash "$top" "$DITRACE" "$@" | LC_ALL=C sort -u | paste -sd' '
}

in_zsh() {
	zsh -f -c '_describe() { print -l -- ${found%%:*}; }
		_files() { print -l -- "$words[CURRENT]"*(N); }
		_normal() { print -l -- program "$words[@]"; }
		asked() { . $1; }
		file=$1; shift; words=("$@") CURRENT=$#; asked $file' zsh "$top/completion/_ditrace" "$DITRACE" "$@" | LC_ALL=C sort -u | paste -sd' '
}

in_fish() {
	PATH=$(dirname "$DITRACE"):$PATH fish --no-config -c '. $argv[1]; complete -C "ditrace $argv[2]"' "$top/completion/ditrace.fish" "$*" |
		cut -f1 | LC_ALL=C sort -u | paste -sd' '
}

# The same for all three.
completes() {
	is "$1: a command" "$("in_$1" re)" "record replay report"
	is "$1: an option" "$("in_$1" run --no)" "--no-devices --no-loss --not-ops"
	is "$1: a value" "$("in_$1" attach --engine p)" ptrace
	is "$1: keys" "$("in_$1" report -s me)" mean
	is "$1: a key of several" "$("in_$1" report --group op,li)" op,line
	is "$1: a column" "$("in_$1" report --columns calls,to)" "calls,total calls,total_percent"
	is "$1: a column of blocks" "$("in_$1" report --columns bl)" "block"
	is "$1: a format" "$("in_$1" export --to s)" "speedscope sqlite svg"
	is "$1: a file" "$("in_$1" report tra)" trace.data
	is "$1: what ctl does" "$("in_$1" ctl 1 compare re)" remove
	is "$1: nothing unknown" "$("in_$1" frobnicate -)" ""
}

completes bash
is "bash has it in three words: --engine=p" "$(in_bash run --engine = p)" ptrace
is "and with nothing behind =" "$(in_bash run --level =)" "aten torch"
like "the program that is started" <(in_bash run -o x -- bas) '(^| )bash( |$)'
is "of which all options are its own" "$(in_bash run python3 --en)" ""
is "it is bound to the command" "$(bash --norc -c ". '$top/completion/ditrace.bash'; complete -p ditrace")" "complete -F _ditrace ditrace"
for shell in zsh fish; do
	if command -v $shell >/dev/null; then
		completes $shell
		is "$shell: --name=value" "$("in_$shell" run --engine=s)" "--engine=shim"
	else
		skip "$shell is not installed" 12
	fi
done

# What is offered is what --help has.
of_help() {
	"$DITRACE" "$1" --help | grep -oE '^ +(-.,)? *--[a-z-]+' | grep -oE -- '--.*' | LC_ALL=C sort -u | paste -sd' '
}
for command in $(in_bash ""); do
	is "$command: the options of --help" "$(in_bash "$command" --)" "$(of_help "$command")"
done

runs_torch() {
	start_paced && in_bash attach -p "" | tr ' ' '\n' | grep -qx "$child"
}
first_torch
ok "a process that runs PyTorch" runs_torch
stop_busy
done_testing
