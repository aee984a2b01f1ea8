/* Interned strings (c10::Symbol, ATen/core/symbol.h) of a live process: numbers for qualified
 * names, kept in one table of libtorch. */
#ifndef SYMBOLIZER_TORCH_INTERNED_H
#define SYMBOLIZER_TORCH_INTERNED_H

#include <stdbool.h>
#include <stdint.h>

#include "symbolizer/target/elf.h"
#include "symbolizer/target/mem.h"

enum { INTERNED_PLACES = 8 };

/* Candidate addresses of the table in libtorch_cpu's file: those that the code of the exported
 * c10::Symbol::toUnqualString refers to. Fills out, the rest with zeros. */
void interned_places(struct elf_file *cpu, uint64_t out[INTERNED_PLACES]);

struct interned;

/* `m` is borrowed; `cow` as in std_string_size; `places` are the candidates at their run-time
 * addresses. NULL when out of memory. Free with interned_free (NULL allowed). */
struct interned *interned_new(const struct mem *m, bool cow,
			      const uint64_t places[INTERNED_PLACES]);
void interned_free(struct interned *s);

/* The unqualified name of symbol `id`, "N" of dimname::N; valid until interned_free. NULL when `s`
 * is NULL, the table is not found, or it has no such symbol in that domain. */
const char *interned_name(struct interned *s, uint32_t id, const char *domain);

#endif
