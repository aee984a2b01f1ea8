/* Interned strings (c10::Symbol, ATen/core/symbol.h) of a live process: a number stands for a
 * qualified name, which one table of libtorch knows. */
#ifndef SYMBOLIZER_TORCH_INTERNED_H
#define SYMBOLIZER_TORCH_INTERNED_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/target/elf.h"
#include "symbolizer/target/mem.h"

enum { INTERNED_PLACES = 8 };

/* Addresses in libtorch_cpu's file, one of which is that of the table: those that the exported
 * c10::Symbol::toUnqualString takes. Fills out, with zeros behind them. */
void interned_places(struct elf_file *cpu, uint64_t out[INTERNED_PLACES]);

struct interned;

/* `m` must outlive it; `cow`: see std_string_size; `places` are those of above, where the process
 * has them. NULL without memory. Free with interned_free (NULL allowed). */
struct interned *interned_new(const struct mem *m, bool cow,
			      const uint64_t places[INTERNED_PLACES]);
void interned_free(struct interned *s);

/* The name without its domain of symbol `id`, "N" of dimname::N; kept until interned_free. NULL
 * when the table cannot be found (`s` may be NULL) or has no such symbol of that domain. */
const char *interned_name(struct interned *s, uint32_t id, const char *domain);

#endif
