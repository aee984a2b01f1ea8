#!/usr/bin/env bash
# Metrics of two ranks: served while they train and scraped by Prometheus itself; served from the trace that is being written,
# and they agree with each other and with report.
. "$(dirname "$0")/../lib.sh"
need_tracing
python=${DITRACE_TEST_FLEET:-$top/build/venv-fleet/bin/python}
prometheus=$(command -v prometheus || echo "$top/build/prometheus/usr/bin/prometheus")

# url_of FILE: where ditrace, whose messages go there, serves
url_of() {
	wait_line "$1" '^ditrace: serving http://' >/dev/null && sed -n 's/^ditrace: serving //p' "$1"
}

scrape() {
	python3 -c 'import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).read())' "$1" "$PATIENCE"
}

# counts_of URL: what only grows with ops; which ops are named depends on when it was asked before
counts_of() {
	scrape "$1" | grep -E '^ditrace_(ops|step|collective|summed|wait)[a-z_]*[ {]' | grep -v step_time
}

both_train() {
	[ "$(grep -c trains "$T/out")" = 2 ]
}

have_steps() {
	[ "$(scrape "$1" | grep -cE '^ditrace_steps_total\{role="train",pid="[0-9]+",rank="[01]"\} [1-9]')" = 2 ]
}

agree() {
	same "$(counts_of "$1")" "$(counts_of "$2")" && counts_of "$1" | grep -q '^ditrace_steps_total.* [1-9]'
}

asked() {
	verify fleet/ask_prometheus "$1" "$2" "$3"
}

# scraped URL: by a Prometheus that runs beside
scraped() {
	[ -x "$prometheus" ] || { skip "no prometheus: tests/deps test" 3 && return; }
	local port server at=${1#http://}
	port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
	cat >"$T/prometheus.yml" <<-EOY
		global: {scrape_interval: 500ms}
		scrape_configs: [{job_name: ditrace, static_configs: [{targets: ["${at%/metrics}"]}]}]
	EOY
	start_as server "$prometheus" --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
		--web.listen-address="127.0.0.1:$port" >"$T/prometheus" 2>&1
	ok "Prometheus has the steps of both ranks" before_long asked "$port" 'ditrace_steps_total' "0 1"
	ok "and can join what else is known of them" before_long asked "$port" 'ditrace_steps_total * on (instance, pid) group_left (local_rank) ditrace_process_info{local_rank=~"0|1"} and on (instance) up == 1' "0 1"
	ok "what the dashboard and the how-to ask is understood" verify fleet/dashboard "$top/docs/grafana-dashboard.json" "$top/docs/howto-prometheus.md" "$port"
	kill -TERM "$server"
	finish "$server"
}

fleet() {
	local launcher live trace
	start_as launcher "$PY" ranks/launch.py ranks/ddp.py "$T/store" "$T/stop" >"$T/out" 2>&1
	before_long both_train
	start_as tracer env --default-signal=INT "$DITRACE" attach --engine shim --no-loss --prometheus 0 -o "$T/data/" --tree "$launcher" >"$T/err" 2>&1
	live=$(url_of "$T/err")
	ok "steps of both ranks are served" before_long have_steps "$live"
	! of_first_torch || scraped "$live"
	error "a port in use" 'cannot listen on 127.0.0.1' "$DITRACE" monitor --prometheus "$(expr "$live" : '.*:\([0-9]*\)/')" --tree "$launcher"
	start_as reader env --default-signal=INT "$DITRACE" monitor --prometheus 0 "$T/data" >"$T/read" 2>&1
	trace=$(url_of "$T/read")
	touch "$T/stop"
	wait_line "$T/out" stops
	ok "a trace that is being written has the same figures" before_long agree "$live" "$trace"
	scrape "$live" >"$T/live"
	kill -INT "$tracer"
	finish "$tracer"
	is "Ctrl-C ends it well" $status 0
	ok "when it has ended, nothing is said of processes that run on" before_long ended "$trace"
	scrape "$trace" >"$T/text"
	kill -INT "$reader"
	finish "$reader"
	is "Ctrl-C ends that well, too" $status 0
	is "both run on" "$(kill -0 "$launcher" && grep -c . "$T/out")" 3
	children+=($(family "$launcher"))
	checked
}

ended() {
	scrape "$1" >"$T/ended" && ! grep -q '^ditrace_up{' "$T/ended"
}

checked() {
	"$DITRACE" report --pager never --group rank,op,phase --percent-limit 0 --format json "$T/data" >"$T/report"
	for rank in 0 1; do "$DITRACE" report --rank $rank --format json "$T/data" >"$T/report.$rank"; done
	ok "they are those of report" verify fleet/metrics_agree "$T/text" "$T/report" "$T/report.0" "$T/report.1"
	ok "the dashboard asks for what is served" verify fleet/dashboard "$top/docs/grafana-dashboard.json" "$T/live"
	if "$python" -c 'import prometheus_client' 2>/dev/null; then
		ok "it is OpenMetrics, strictly" "$python" -c 'import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse; assert len([*parse(open(sys.argv[1]).read())]) > 15' "$T/live"
	else
		skip "no Python with prometheus_client: tests/deps test"
	fi
}

monitored() {
	start "$PY" paced.py >"$T/busy"
	wait_line "$T/busy" '^pid '
	start_as tracer env -C "$T" --default-signal=INT "$DITRACE" monitor --prometheus localhost:0 "$child" >"$T/err" 2>&1
	local at
	at=$(url_of "$T/err")
	ok "monitor traces a process by itself" before_long has_ops "$at"
	stop_busy
	finish "$tracer"
	is "and ends with it, without a table" "$status $(grep -c Self "$T/err")" "0 0"
	ok "no file was written" not test -e "$T/ditrace.data"
}

has_ops() {
	scrape "$1" | grep -qE '^ditrace_ops_total\{role="train",pid="[0-9]+",phase="forward"\} [1-9]'
}

each_torch fleet
first_torch
monitored
error "no such process" 'no such process' "$DITRACE" monitor --prometheus 0 4194303
start sleep 36000
error "no PyTorch in it" 'no PyTorch' "$DITRACE" monitor --prometheus 0 "$child"
error "several PIDs, and no rows" 'one process' "$DITRACE" monitor "$child" "$child"
done_testing
