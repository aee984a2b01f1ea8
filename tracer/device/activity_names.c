#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/elf.h"
#include "tracer/device/internal.h"

static const char *interned_text(struct activity_names *n, const char *text)
{
	bool is_new;
	int64_t id = intern(&n->texts, text, (uint32_t)strlen(text), &is_new);
	if (id < 0 || array_grow(&n->text, &n->room, (size_t)id + 1, sizeof(*n->text)))
		return NULL;
	if (is_new)
		n->text[id] = arena_strndup(&n->arena, text, strlen(text));
	return n->text[id];
}

const char *activity_name_of_kernel(struct activity_names *n, const char *symbol)
{
	char *text = elf_demangle(symbol, DMGL_PARAMS | DMGL_ANSI);
	const char *kept = interned_text(n, text ? text : symbol);
	free(text);
	return kept;
}

/* The words of Kineto (libkineto/src/cupti_strings.cpp), by CUpti_ActivityMemoryKind and
 * CUpti_ActivityMemcpyKind. */
static const char *word_of_memory(uint8_t kind)
{
	static const char *const words[] = {"Unknown",	     "Pageable",      "Pinned",
					    "Device",	     "Array",	      "Managed",
					    "Device Static", "Managed Static"};
	return kind < sizeof(words) / sizeof(words[0]) ? words[kind] : "Unrecognized";
}

static const char *word_of_copy(uint64_t kind)
{
	static const char *const words[] = {"<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					    "AtoD",	 "DtoA", "DtoD", "HtoH", "PtoP"};
	return words[kind < sizeof(words) / sizeof(words[0]) ? kind : 0];
}

const char *activity_name_of_memory(struct activity_names *n, const struct activity_record *r)
{
	char text[96];
	if (r->activity == ACTIVITY_COPY)
		snprintf(text, sizeof(text), "Memcpy %s (%s -> %s)", word_of_copy(r->name),
			 word_of_memory(r->from), word_of_memory(r->to));
	else
		snprintf(text, sizeof(text), "Memset (%s)", word_of_memory(r->to));
	return interned_text(n, text);
}

void activity_names_free(struct activity_names *n)
{
	intern_free(&n->texts);
	arena_free(&n->arena);
	free(n->text);
	*n = (struct activity_names){0};
}
