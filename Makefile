# ditrace: make, make demo, make test, make bench, make install; make help lists the rest.

CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PREFIX ?= /usr/local
BUILD ?= build
# One spelling, as dependency files name their targets by it.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
CFLAGS ?= -O2 -g
CFLAGS_ALL := -std=gnu11 $(WARN) -I. -I$(BUILD) $(CFLAGS) $(SAN)
LIBS := -lbpf -ldw -lelf -lcapstone -lzstd -ljansson -liberty -lminizip -lxxhash -lpcre2-8 -lsqlite3 -lncursesw -ltinfo -lmicrohttpd -lz \
	-lpthread -lm

FOLDERS := base tracer symbolizer perf tui replay
# sources FOLDERS PATTERN: in these folders and below
sources = $(sort $(shell find $(1) -name '$(2)'))
LIB_SRC := $(filter-out %.bpf.c tracer/shim/%,$(call sources,$(FOLDERS),*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(BUILD)/replay/runner_py.o $(BUILD)/tracer/shim/library.o \
	$(BUILD)/perf/export/parquet/writer_py.o \
	$(BUILD)/perf/export/html/page_head.o $(BUILD)/perf/export/html/page_tail.o
# The library that goes into traced processes: its own parts, and what the other engines do, too.
SHIM_SRC := $(call sources,tracer/shim,*.c) $(addprefix tracer/engine/,plan_reader.c shadow_stack.c native_walk.c pyframes.c ring.c brief.c \
	sums.c) \
	tracer/engine/shim/stub_image_x86_64.c $(addprefix replay/numbers/,stats.c number.c compare.c compare_kernel.c spread.c verdict.c) symbolizer/event/names.c \
	base/err.c base/text.c
SHIM_OBJ := $(SHIM_SRC:%.c=$(BUILD)/shim/%.o) $(BUILD)/tracer/shim/modes_py.o
# Its many small functions are worth being optimised as one.
SHIM_OPT := -O3 -flto=auto
# What the recorder asks of its compiler (registers, assembly) is gcc's.
SHIM_CC := $(if $(findstring clang,$(CC)),gcc,$(CC))
# The packages ditrace_runner and ditrace_modes.
RUNNER_PY := $(sort $(filter-out %/first.py %/loader.py %/start.py,$(wildcard replay/runner/*.py)))
MODES_PY := $(sort $(filter-out %/start.py,$(wildcard tracer/shim/modes/*.py)))
# The page of export --to html: third-party libraries, each after those that it uses, and its own scripts.
PAGE := perf/export/html
PAGE_JS := $(patsubst %,$(PAGE)/d3/d3-%.min.js,array color dispatch ease format timer time time-format interpolate scale selection \
	transition hierarchy drag zoom flamegraph.umd) $(patsubst %,$(PAGE)/page/%.js,base head flame timeline tables main)
PAGE_PARTS := $(PAGE)/page/page.html $(PAGE)/page/page.css $(PAGE)/d3/LICENCES.txt
LIB := $(BUILD)/libditrace.a
BPF_SRC := $(call sources,tracer,*.bpf.c)
SKEL := $(BPF_SRC:%.bpf.c=$(BUILD)/%.skel.h)
UNIT_SRC := $(call sources,tests/unit,test_*.c)
UNIT := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/tests/unit/%.t)
TOOL_SRC := $(wildcard tests/tools/*.c)
TOOLS := $(TOOL_SRC:tests/tools/%.c=$(BUILD)/tests/tools/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ := $(FUZZ_SRC:%.c=$(BUILD)/%)
MAN := $(wildcard docs/man/*.1)
DOC := README.md CHANGELOG.md $(wildcard docs/*.md docs/*.json)
BASH_COMPLETION := share/bash-completion/completions/ditrace
ZSH_COMPLETION := share/zsh/site-functions/_ditrace
FISH_COMPLETION := share/fish/vendor_completions.d/ditrace.fish

# What is being done, a line each; make V=1 shows the commands, make QUIET=1 nothing.
Q := $(if $(V),,@)
say = @$(if $(V)$(QUIET),:,printf '  %-5s %s\n' $(1) $(2))
PARALLEL = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

all: $(BUILD)/ditrace

$(BUILD)/ditrace: $(BUILD)/ditrace.o $(LIB)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS) -o $@ $^ $(LIBS)

$(LIB): $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c | $(SKEL)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# SOURCES of replay/runner/loader.py, as Python: $(call embedded,PACKAGE,FILES)
embedded = for f in $(2); do \
	printf '"%s": "\\\n' $(1).$$(basename $$f .py) | sed 's/\.__init__"/"/'; \
	sed 's/\\/\\\\/g; s/"/\\"/g; s/$$/\\n\\/' $$f; echo '",'; done

# The part of replay that runs in the user's Python, as bytes: _binary_runner_py_start to _end.
$(BUILD)/replay/runner_py.o: $(RUNNER_PY) replay/runner/first.py replay/runner/loader.py replay/runner/start.py
	@mkdir -p $(@D)
	$(call say,PY,$@)
	$(Q){ cat replay/runner/first.py; echo 'SOURCES = {'; $(call embedded,ditrace_runner,$(RUNNER_PY)); echo '}'; \
		cat replay/runner/loader.py replay/runner/start.py; } > $(@D)/runner_py
	$(Q)cd $(@D) && ld -r -b binary -z noexecstack -o runner_py.o runner_py

# What writes Parquet, in a Python with pyarrow.
$(BUILD)/perf/export/parquet/writer_py.o: replay/runner/first.py perf/export/parquet/writer.py
	@mkdir -p $(@D)
	$(call say,PY,$@)
	$(Q)cat $^ > $(@D)/writer_py
	$(Q)cd $(@D) && ld -r -b binary -z noexecstack -o writer_py.o writer_py

$(BUILD)/shim/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,shim $<)
	$(Q)$(SHIM_CC) $(filter-out $(SAN),$(CFLAGS_ALL)) -fPIC -fvisibility=hidden -ftls-model=initial-exec -DINSIDE $(SHIM_OPT) -MMD -MP -c -o $@ $<

# What runs at the exit of an op, where no register may change, and the compiler may not make loops into calls.
GENERAL := $(addprefix tracer/engine/,plan_reader shadow_stack native_walk pyframes ring brief sums) $(addprefix tracer/shim/,memory saved_call_x86_64 state) \
	$(addprefix tracer/shim/record/,jumps recorder_thread turns)
$(GENERAL:%=$(BUILD)/shim/%.o): CFLAGS_ALL += -mgeneral-regs-only $(if $(findstring clang,$(CC)),-fno-builtin,-fno-tree-loop-distribute-patterns)

# What they need of other libraries is in their headers.
$(BUILD)/shim/replay/%.o: CFLAGS_ALL += -Wno-psabi -DXXH_INLINE_ALL

$(BUILD)/tracer/shim/modes_py.o: $(MODES_PY) $(RUNNER_PY) replay/runner/loader.py tracer/shim/modes/start.py
	@mkdir -p $(@D)
	$(call say,PY,$@)
	$(Q){ echo 'SOURCES = {'; $(call embedded,ditrace_runner,$(RUNNER_PY)); $(call embedded,ditrace_modes,$(MODES_PY)); echo '}'; \
		cat replay/runner/loader.py tracer/shim/modes/start.py; } > $(@D)/modes_py
	$(Q)cd $(@D) && ld -r -b binary -z noexecstack -o modes_py.o modes_py

# Its bytes are part of ditrace: _binary_libditrace_shim_so_start to _end.
$(BUILD)/tracer/shim/library.o: $(SHIM_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,libditrace_shim.so)
	$(Q)$(SHIM_CC) -shared $(SHIM_OPT) -Wl,--version-script=tracer/shim/exports.map -Wl,-z,defs -Wl,-z,now -Wl,--build-id -Wl,--as-needed \
		-o $(@D)/libditrace_shim.so $^ -ldl -lpthread -lm
	$(Q)cd $(@D) && ld -r -b binary -z noexecstack -o library.o libditrace_shim.so

# The page up to its data, and what follows the data; the one script that it may run is known by its hash.
$(BUILD)/$(PAGE)/page_head: $(PAGE_JS) $(PAGE_PARTS)
	@mkdir -p $(@D)
	$(call say,PAGE,$@)
	$(Q){ for f in $(PAGE_JS); do cat $$f; echo; done; } > $(@D)/page_js
	$(Q)hash=$$(env printf "$$(sha256sum $(@D)/page_js | cut -c 1-64 | sed 's/../\\x&/g')" | base64) && \
		sed -e "s|@HASH@|$$hash|" -e '/@STYLE@/{r $(PAGE)/page/page.css' -e 'd}' -e '/@LICENCES@/{r $(PAGE)/d3/LICENCES.txt' -e 'd}' \
		-e '/@DATA@/,$$d' $(PAGE)/page/page.html > $@

$(BUILD)/$(PAGE)/page_tail: $(BUILD)/$(PAGE)/page_head
	$(Q){ echo '</script>'; printf '<script>'; cat $(@D)/page_js; echo '</script>'; sed '1,/@DATA@/d' $(PAGE)/page/page.html; } > $@

$(BUILD)/$(PAGE)/page_head.o $(BUILD)/$(PAGE)/page_tail.o: %.o: %
	$(Q)cd $(@D) && ld -r -b binary -z noexecstack -o $(@F) $(*F)

# The loops over numbers. Vectors wider than the base machine's only pass between inlined functions.
$(BUILD)/replay/numbers/number.o $(BUILD)/replay/numbers/compare_kernel.o: CFLAGS_ALL += -O3 -Wno-psabi

$(BUILD)/%.bpf.o: %.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) -O2 -g -Wall -Wextra -Werror -target bpf -D__TARGET_ARCH_x86 -I. -I/usr/include/x86_64-linux-gnu \
		-MMD -MP -MT $@ -c -o $@ $<

$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(Q)$(BPFTOOL) gen skeleton $< name $(notdir $*)_bpf > $@.tmp && mv $@.tmp $@

$(BUILD)/tests/unit/%.t: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -MT $@ -MF $(@:.t=.d) $(LDFLAGS) -o $@ $< $(LIB) -lcmocka $(LIBS)

$(BUILD)/tests/tools/%: tests/tools/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) $(LIBS)

# Fuzz targets are compiled with them, so that they follow the code; make fuzz builds and runs them.
unit: $(UNIT) $(TOOLS) $(FUZZ:=.o)

demo:
	@tests/deps demo
	@echo "building ditrace"
	@$(MAKE) --no-print-directory $(PARALLEL) QUIET=1 all
	@BUILD=$(BUILD) tests/demo

test:
	@tests/deps test
	@$(MAKE) --no-print-directory $(PARALLEL) all unit
	@BUILD=$(BUILD) tests/run

# The same files with larger numbers.
test-long:
	@LONG=1 tests/deps test
	@$(MAKE) --no-print-directory $(PARALLEL) all unit
	@BUILD=$(BUILD) LONG=1 LIMIT=5400 tests/run

OBSERVER_SO := $(BUILD)/tests/bench/libobserver.so

$(OBSERVER_SO): tests/bench/observer.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS_ALL) -fPIC -shared -o $@ $< -ldl

# The comparison loops as a library, for the bench.
COMPARE_SO := $(BUILD)/tests/bench/libcompare.so
COMPARE_SRC := $(wildcard replay/numbers/compare*.c) replay/numbers/number.c symbolizer/event/names.c base/err.c base/text.c

$(COMPARE_SO): $(COMPARE_SRC) $(wildcard replay/numbers/*.h)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS_ALL) -O3 -Wno-psabi -fPIC -shared -o $@ $(COMPARE_SRC) -lm -lpthread

bench:
	@tests/deps bench
	@$(MAKE) --no-print-directory $(PARALLEL) all $(COMPARE_SO) $(OBSERVER_SO) $(TOOLS)
	@BUILD=$(BUILD) tests/bench/run

include tests/fuzz/fuzz.mk

install: all
	install -D -m 755 $(BUILD)/ditrace $(DESTDIR)$(PREFIX)/bin/ditrace
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(MAN) $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/ditrace $(DOC)
	install -D -m 644 completion/ditrace.bash $(DESTDIR)$(PREFIX)/$(BASH_COMPLETION)
	install -D -m 644 completion/_ditrace $(DESTDIR)$(PREFIX)/$(ZSH_COMPLETION)
	install -D -m 644 completion/ditrace.fish $(DESTDIR)$(PREFIX)/$(FISH_COMPLETION)

uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/ditrace $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION) \
		$(addprefix share/man/man1/,$(notdir $(MAN))) $(addprefix share/doc/ditrace/,$(notdir $(DOC))))

C_SRC := ditrace.c $(LIB_SRC) $(call sources,tracer/shim,*.c) $(UNIT_SRC) $(TOOL_SRC) $(FUZZ_SRC)
FORMATTED := $(C_SRC) $(BPF_SRC) $(call sources,$(FOLDERS) tests/unit,*.h)

format:
	@clang-format -i $(FORMATTED)

lint: lint-layout lint-python lint-format lint-cppcheck lint-tidy

lint-layout:
	@tests/layout

lint-python: lint-deps
	@build/venv-lint/bin/ruff check --quiet --no-cache

lint-deps:
	@tests/deps check

lint-format: lint-deps
	@clang-format --dry-run -Werror $(FORMATTED) || { echo "put right by: make format"; false; }

lint-cppcheck: lint-deps
	@echo cppcheck
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
		--suppressions-list=.cppcheck-suppressions -D'LIBBPF_OPTS(t,n,...)=struct t n' -j $(shell nproc) \
		-I. ditrace.c $(LIB_SRC) $(call sources,tracer/shim,*.c)

lint-tidy: $(SKEL) | lint-deps
	@echo clang-tidy
	@printf '%s\n' $(C_SRC) | xargs -P $(shell nproc) -n 8 sh -c \
		'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=gnu11 -I. -I$(BUILD) 2>/dev/null' sh

clean:
	find $(BUILD) -mindepth 1 -maxdepth 1 ! -name 'venv*' -exec rm -rf {} +

distclean:
	rm -rf $(BUILD)

help:
	@echo "make             build $(BUILD)/ditrace; V=1 shows the commands, CFLAGS= and SAN= add to them"
	@echo "make demo        install what is missing, build, train a small transformer under ditrace"
	@echo "make test        all tests; make unit only builds the unit tests and their tools"
	@echo "make test-long   the same, with what only repeats (attaches, kills, pairs of engines) repeated more often"
	@echo "make bench       overhead, and what reading traces costs; beside torch.profiler, py-spy and bpftrace"
	@echo "make install     into PREFIX=$(PREFIX), below DESTDIR; make uninstall"
	@echo "make check-asan  unit tests and fuzz targets, built with the address and undefined sanitizers"
	@echo "make fuzz        each fuzz target for TIME=10 seconds, from where it ended the last time; needs clang"
	@echo "make lint        ruff, clang-format, cppcheck, clang-tidy; make format formats"
	@echo "make clean       remove what was built; make distclean: and the virtual environments"

.PHONY: all unit demo test test-long bench install uninstall check-asan check-asan-unit check-asan-fuzz fuzz fuzz-targets format lint lint-deps lint-layout lint-python lint-format lint-cppcheck \
	lint-tidy clean distclean help
.SECONDARY:
-include $(LIB_OBJ:.o=.d) $(SHIM_OBJ:.o=.d) $(BUILD)/ditrace.d $(BPF_SRC:%.c=$(BUILD)/%.d) $(UNIT:.t=.d) $(TOOLS:=.d) $(FUZZ:=.d)
