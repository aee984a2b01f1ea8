#!/usr/bin/env bash
# ditrace record: code that gets its name only later has it when the file is read, and code that soon disappears is known.
. "$(dirname "$0")/../lib.sh"
[ -x "$DITRACE" ] || { echo "Bail out! $DITRACE is not built" && exit 1; }

# symbols [VARIABLE=VALUE]...: write the symbols of the samples to $T/symbols
symbols() {
	env "$@" "$DITRACE" report --group symbol --format csv "$T/data" >"$T/symbols"
}

# spinners: build shared libraries $T/liba.so, ...: late_spin(n) calls spin_a, ...
spinners() {
	local i
	for i in a b c; do
		printf 'static __attribute__((noinline)) void spin_%s(long n) { while (n--) __asm__ volatile(""); }
			void late_spin(long n) { spin_%s(n); __asm__ volatile(""); }' $i $i |
			cc -shared -fPIC -O1 -fno-optimize-sibling-calls -Wl,--build-id -o "$T/lib$i.so" -x c -
	done
}

# all_spun: whether all of them have samples
all_spun() {
	[ "$(grep -cE '^spin_[abc],.*/lib[abc]\.so' "$T/symbols")" = 3 ]
}

late() {
	spinners
	mkdir "$T/lib"
	cat >"$T/spin.c" <<-'END'
		static __attribute__((noinline)) void spin_here(long n) { while (n--) __asm__ volatile(""); }
		void late_spin(long n) { spin_here(n); __asm__ volatile(""); }
	END
	cc -shared -fPIC -O1 -fno-optimize-sibling-calls -Wl,--build-id -o "$T/lib/libspin.so" "$T/spin.c"
	local id
	id=$(readelf -n "$T/lib/libspin.so" | awk '/Build ID/ { print $3 }')
	mkdir -p "$T/home/.debug/.build-id/${id:0:2}/${id:2}"
	cp "$T/lib/libspin.so" "$T/home/.debug/.build-id/${id:0:2}/${id:2}/elf"
	strip "$T/lib/libspin.so"
	"$DITRACE" record -F 997 -o "$T/data" -- "$PY" sample/without_names.py "$T/lib/libspin.so" "$T"/lib{a,b,c}.so >"$T/map" 2>"$T/err"
	is "a program with code that has no names is recorded" $? 0
	local map names
	read -r map names < <(tail -n 1 "$T/map")
	echo "$names" >"$T/later" # not written by the program: the last samples may be read after its end
	touch -r "$T/data" "$T/later"
	symbols HOME=/nowhere
	ok "each library of one place is known" all_spun
	like "code without a symbol has its address in the file" "$T/symbols" 'libspin\.so\+0x[0-9a-f]+'
	like "that in no file is told as such" "$T/symbols" '\(unknown\).*\[anon\]'
	unlike "its addresses are not rows" "$T/symbols" '\[anon [0-9]'
	symbols HOME="$T/home"
	like "a file with its build id gives the name" "$T/symbols" '^"?spin_here'
	HOME=$T/home "$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
	like "to script, too" "$T/jsonl" '"spin_here"'
	HOME=$T/home "$DITRACE" export --to csv "$T/data" >"$T/csv"
	like "and to export" "$T/csv" 'spin_here'
	printf 'int x;' | cc -shared -Wl,--build-id -o "$T/home/.debug/.build-id/${id:0:2}/${id:2}/elf" -x c -
	symbols HOME="$T/home"
	unlike "a file with another build id gives none" "$T/symbols" 'spin_here'
	mv "$T/later" "$map"
	symbols HOME=/nowhere
	like "names that a JIT gives afterwards are taken" "$T/symbols" 'made_late.*\[JIT\]'
	touch -d '+1 hour' "$map"
	symbols HOME=/nowhere
	unlike "not from a file that was written after the recording" "$T/symbols" 'made_late'
	rm -f "$map"
}

ended() {
	spinners
	cat >"$T/short.c" <<-'END'
		#include <dlfcn.h>
		int main(int argc, char **argv)
		{
			for (int i = 1; i < argc; i++) {
				void *l = dlopen(argv[i], RTLD_NOW);
				((void (*)(long))dlsym(l, "late_spin"))(60000000);
				dlclose(l);
			}
			return 0;
		}
	END
	cc -O1 -o "$T/short" "$T/short.c"
	local as=() who
	for who in "" "a plain user: "; do
		[ -n "$who" ] && as=(setpriv --reuid="$plain_uid" --regid="$plain_uid" --clear-groups --inh-caps=-all)
		label=$who
		[ -n "$who" ] && [ "$(id -u)" != 0 ] && skip "only root can become another user" 4 && continue
		[ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ] || { skip "kernel.perf_event_paranoid is above 2" 4; continue; }
		rm -rf "$T/go" "$T/user"
		chmod 755 "$base" "$T"
		mkdir -m 777 "$T/user"
		cp "$DITRACE" "$T/ditrace"
		# A plain user's buffer, which nobody reads meanwhile, holds some 170 samples.
		start "${as[@]}" "$T/ditrace" record -F 199 -o "$T/user/data" -- bash -c 'echo ready
			until [ -e "$0/go" ]; do sleep 0.05; done
			"$0/short" "$0"/lib{a,b,c}.so
			echo ended' "$T" >"$T/running" 2>"$T/err"
		wait_line "$T/running" '^ready'
		kill -STOP "$child" # so that what has ended is only read afterwards
		touch "$T/go"
		wait_line "$T/running" '^ended'
		kill -CONT "$child"
		wait "$child"
		is "a program ends before its samples are read" $? 0
		cp "$T/user/data" "$T/data"
		symbols
		ok "its libraries are known" all_spun
		"$DITRACE" script --format jsonl "$T/data" >"$T/jsonl"
		like "and its stacks" "$T/jsonl" '"spin_b".*"late_spin".*"main".*"_start"'
		like "nothing is lost" "$T/err" " 0 lost"
	done
	label=""
}

each_torch late
T=$(mktemp -d "$base/t.XXXXXX")
ended
done_testing
