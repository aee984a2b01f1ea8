# make check-asan: the unit tests, built with sanitizers into a folder of their own. make fuzz: each fuzz target for
# TIME seconds, which libFuzzer wants clang for, built into another. Warnings are left to the ordinary build: sanitizers
# make the compilers see some that are none.

TIME ?= 10
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined
ASAN_MAKE := $(MAKE) --no-print-directory $(PARALLEL)

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -fsanitize=fuzzer -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) $(LIBS)

fuzz-targets: $(FUZZ)

fuzz:
	@tests/fuzz/can $(CLANG)
	@$(ASAN_MAKE) BUILD=$(BUILD)/fuzz CC=$(CLANG) SAN='$(SANITIZE) -fsanitize=fuzzer-no-link' \
		CFLAGS='-O1 -g -w -fno-omit-frame-pointer' fuzz-targets
	@BUILD=$(BUILD)/fuzz tests/fuzz/run $(TIME)

check-asan: check-asan-unit check-asan-fuzz

check-asan-unit:
	@tests/deps check
	@$(ASAN_MAKE) BUILD=$(BUILD)/asan CFLAGS='-O2 -g -w -fno-omit-frame-pointer' SAN='$(SANITIZE)' unit
	@BUILD=$(BUILD)/asan tests/run unit

check-asan-fuzz:
	@tests/deps check
	@$(MAKE) --no-print-directory fuzz
