#!/usr/bin/env bash
# Root works in another user's folder: what ditrace writes only root can read, and no link of that user leads it anywhere.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../theirs.sh"
need_tracing

untouched() {
	[ "$(ls -A "$T/safe")" = precious ] && [ "$(cat "$T/safe/precious")" = precious ] || { ls -la "$T/safe" && head -c 100 "$T/safe/precious"; false; }
}

# modes FOLDER...: those of what is in them: "d 700 f 600"
modes() {
	find "$@" -mindepth 1 -printf '%y %m\n' | sort -u | xargs
}

refused() {
	error "$1 through a link names the link and its owner" "$2 is a link of user $plain_uid" "${@:3}"
}

links() {
	theirs
	as_user ln -s ../safe through
	as_user ln -s ../safe/precious ditrace.data
	as_user ln -s ../safe/precious ditrace.data.part
	as_user ln -s ../safe/new rows.csv
	"$DITRACE" run -- true 2>"$T/err"
	is "run replaces a link by a file" "$(stat -c '%F %a %u' ditrace.data)" "regular file 600 0"
	ok "which is a trace" cmp -n 8 ditrace.data "$T/data"
	as_user ln -sf ../safe/precious ditrace.data
	"$DITRACE" record -- true 2>"$T/err"
	is "and so does record" "$(stat -c '%F %a %u' ditrace.data)" "regular file 600 0"
	"$DITRACE" monitor --interval 50ms --count 1 -o rows.csv $$ >/dev/null
	is "and monitor" "$(stat -c '%F %a' rows.csv)" "regular file 600"
	as_user ln -sf ../safe/new rows.csv
	"$DITRACE" export -o rows.csv "$T/data"
	is "and export" "$(stat -c '%F %a' rows.csv)" "regular file 600"
	as_user ln -sf ../safe/new db
	"$DITRACE" export --to sqlite -o db "$T/data"
	is "also to a database" "$(stat -c '%F %a' db)" "regular file 600"

	refused run through "$DITRACE" run -o through/x -- true
	refused record through "$DITRACE" record -o through/x -- true
	refused export through "$DITRACE" export -o "$T/theirs/through/x"
	refused "export to sqlite" through "$DITRACE" export --to sqlite -o ./through/../safe/x
	refused monitor through "$DITRACE" monitor -o through/x $$
	as_user ln -s ../safe op_tools_results
	"$DITRACE" run --capture --max-calls 1 -o c.data -- "$PY" -c 'import torch; torch.ones(2).add(1); print("ran")' >"$T/out" 2>"$T/err"
	like "captures are not, through a link" "$T/err" "op_tools_results is a link of user $plain_uid"
	like "and the program runs on" "$T/out" '^ran'
	refused "the times of replay" op_tools_results "$DITRACE" replay --sync-time-measure --run-times 2 --python "$PY" "$T/captures"
	"$DITRACE" run --compare all --capture --engine shim "$PY" "$W/intervene/device.py" --fault forward >"$T/out" 2>"$T/err"
	is "what compare found" "$(grep -c "op_autocompare_result: on its way, op_tools_results is a link of user $plain_uid" "$T/err")" 1
	ok "nothing else was touched" untouched
	cd "$W" || exit 1
}

private() {
	theirs
	(
		umask 0
		mkdir all
		chown "$plain_uid" all
		cd all || exit 1
		"$DITRACE" run --capture -o trace -- "$PY" "${add[@]}"
		"$DITRACE" record -o samples -- true
		"$DITRACE" export -o rows.csv trace
		"$DITRACE" export --to sqlite -o db trace
		"$DITRACE" monitor --interval 50ms --count 1 -o monitor.csv $$
		"$DITRACE" run --compare gelu --apply linear:op_capture --apply layer_norm:measure_op_time "$PY" "$W/intervene/device.py" --fault forward
	) >"$T/out" 2>"$T/err"
	cp all/trace "$T/data"
	cp -r all/op_tools_results/op_capture_results "$T/captures"
	is "files are for their owner, folders too" "$(modes all)" "d 700 f 600"
	is "all were made" "$(ls all | xargs)" "db monitor.csv op_tools_results rows.csv samples trace"
	is "of each kind" "$(ls all/op_tools_results | xargs)" "op_autocompare_result op_capture_results op_time_measure_result"
	is "the user reads nothing of them" "$(find all -mindepth 1 -type f -print0 | as_user xargs -0 cat 2>/dev/null | wc -c)" 0
	SUDO_UID=$plain_uid SUDO_GID=$plain_uid "$DITRACE" run --capture -- "$PY" "${add[@]}" >"$T/out" 2>"$T/err"
	is "under sudo all is the user's" "$(find ditrace.data op_tools_results -printf '%U %y %m\n' | sort -u | xargs)" \
		"$plain_uid d 700 $plain_uid f 600"
	cd "$W" || exit 1
}

all() {
	private
	of_first_torch || { skip "links were with another torch: make test-long"; return; }
	links
}
each_torch all
done_testing
