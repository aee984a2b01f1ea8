/* Python pickles, protocol 2 (Lib/pickletools.py of CPython describes the opcodes): as much of it
 * as torch.save writes and the readers of torch.load(weights_only=True) know
 * (torch/_weights_only_unpickler.py). Nothing is memoized: what occurs twice is written twice. */
#ifndef REPLAY_CAPTURE_PICKLE_H
#define REPLAY_CAPTURE_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. Owns `data`; pickle_free gives it back. Out of memory is remembered in `failed`,
 * and what is added then is dropped. */
struct pickle {
	uint8_t *data;
	size_t len, size;
	bool failed;
};

/* The first and the last opcode. */
void pickle_begin(struct pickle *p);
void pickle_end(struct pickle *p);

void pickle_none(struct pickle *p);
void pickle_bool(struct pickle *p, bool b);
void pickle_int(struct pickle *p, int64_t i);
void pickle_uint(struct pickle *p, uint64_t i);
void pickle_float(struct pickle *p, double f);

/* `len` bytes of UTF-8. */
void pickle_text(struct pickle *p, const char *s, size_t len);
void pickle_string(struct pickle *p, const char *s);

/* A class, function or constant of a module. */
void pickle_global(struct pickle *p, const char *module, const char *name);

/* A tuple: pickle_mark, its items, pickle_tuple. */
void pickle_mark(struct pickle *p);
void pickle_tuple(struct pickle *p);

/* A list: pickle_list, its items, pickle_appends. */
void pickle_list(struct pickle *p);
void pickle_appends(struct pickle *p);

/* A dict: pickle_dict, its keys and values in turn, pickle_setitems. */
void pickle_dict(struct pickle *p);
void pickle_setitems(struct pickle *p);

/* Call the callable with the tuple that were written last. */
void pickle_reduce(struct pickle *p);

/* The object that the tuple written last stands for in the reader (a storage). */
void pickle_persistent(struct pickle *p);

void pickle_free(struct pickle *p);

#endif
