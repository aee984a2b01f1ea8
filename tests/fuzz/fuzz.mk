# make check-asan: the unit tests, built with sanitizers into a folder of their own, and each fuzz target for
# FUZZ_SECONDS, which libFuzzer wants clang for: into another. Warnings are left to the ordinary build: sanitizers
# make the compilers see some that are none. make fuzz builds the targets with what it is given.

FUZZ_SECONDS ?= 10
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined
ASAN_MAKE := $(MAKE) --no-print-directory $(PARALLEL)

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(LIB)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -fsanitize=fuzzer -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< $(LIB) $(LIBS)

fuzz: $(FUZZ)

check-asan: check-asan-unit check-asan-fuzz

check-asan-unit:
	@tests/deps check
	@$(ASAN_MAKE) BUILD=$(BUILD)/asan CFLAGS='-O2 -g -w -fno-omit-frame-pointer' SAN='$(SANITIZE)' unit
	@BUILD=$(BUILD)/asan tests/run unit

check-asan-fuzz:
	@tests/deps check
	@$(ASAN_MAKE) BUILD=$(BUILD)/fuzz CC=$(CLANG) SAN='$(SANITIZE) -fsanitize=fuzzer-no-link' \
		CFLAGS='-O1 -g -w -fno-omit-frame-pointer' fuzz
	@BUILD=$(BUILD)/fuzz tests/fuzz/run $(FUZZ_SECONDS)
