#include "symbolizer/torch/layout.h"

#include <errno.h>
#include <stdlib.h>

/* What glibc's malloc says of the size of what it has given out at `at` (malloc/malloc.c, mchunk_
 * size): bounds the object. */
bool torch_object_read(const struct mem *m, struct rtti *r, uint64_t at, struct torch_object *o)
{
	uint64_t head;
	if (at % 8 || at < 4096 || mem_read_u64(m, at - 8, &head))
		return false;
	uint64_t size = (head & ~7ULL) - 8;
	if (head < 32 || size > TORCH_OBJECT_MAX || mem_read(m, at, o->word, size & ~7ULL))
		return false;
	o->at = at;
	o->n = size / 8;
	o->class = rtti_of_vtable(r, o->word[0]);
	return o->class;
}

bool torch_object_is_a(struct rtti *r, uint64_t at, const char *class)
{
	return at && at % 8 == 0 && rtti_is_a(rtti_of_object(r, at), class);
}

/* They are in its std::unordered_map from a kind of device to an intrusive_ptr: nodes of a list,
 * {next, key, pointer} (bits/hashtable_policy.h). */
size_t process_group_backends(const struct mem *m, struct rtti *r, const struct torch_object *o,
			      uint64_t *out, size_t most)
{
	static const char backend[] = "N4c10d7BackendE";
	size_t n = 0;
	for (size_t i = 1; i < o->n && n < most; i++) {
		uint64_t node[3] = {o->word[i]};
		for (unsigned k = 0; k < 16 && node[0] && node[0] % 8 == 0 && n < most; k++) {
			if (mem_read(m, node[0], node, sizeof(node)) ||
			    !torch_object_is_a(r, node[2], backend))
				break;
			bool seen = false;
			for (size_t j = 0; j < n; j++)
				seen |= out[j] == node[2];
			if (!seen)
				out[n++] = node[2];
		}
	}
	return n;
}

static uint64_t gloo_of(const struct mem *m, struct rtti *r, const struct torch_object *o)
{
	enum { BACKENDS = 8 };
	static const char gloo[] = "N4c10d16ProcessGroupGlooE";
	uint64_t at[BACKENDS];
	if (rtti_is_a(o->class, gloo))
		return o->at;
	for (size_t n = process_group_backends(m, r, o, at, BACKENDS); n-- > 0;)
		if (torch_object_is_a(r, at[n], gloo))
			return at[n];
	return 0;
}

int32_t process_group_counter(struct elf_file *cpu)
{
	uint64_t size = 0,
		 at = elf_find_dynamic(cpu, "_ZN4c10d16ProcessGroupGloo7nextTagEv", &size);
	return member_counted_up(at && size ? elf_bytes(cpu, at, size) : NULL, size);
}

int process_group_count(const struct mem *m, struct rtti *r, struct elf_file *cpu, uint64_t group,
			uint32_t *count)
{
	const int32_t at = process_group_counter(cpu);
	struct torch_object *o = malloc(sizeof(*o));
	if (!o)
		return -ENOMEM;
	uint64_t gloo = at >= 0 && torch_object_read(m, r, group, o) ? gloo_of(m, r, o) : 0;
	free(o);
	return gloo ? mem_read(m, gloo + (uint32_t)at, count, sizeof(*count)) : -ENODATA;
}
