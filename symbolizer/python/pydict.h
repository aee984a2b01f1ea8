/* Dicts and the attributes of objects of the target, read without its help. */
#ifndef SYMBOLIZER_PYTHON_PYDICT_H
#define SYMBOLIZER_PYTHON_PYDICT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct py_runtime;

/* A word of the target. */
struct py_word {
	uint64_t at, is;
};

/* A dict, an object of a class made from it such as OrderedDict, or the attributes of an object, as
 * they looked when they were opened. All are target addresses, but for `n`. */
struct py_dict {
	uint64_t entries;
	uint64_t key_at, value_at; /* of the first entry: where its key and its value stand */
	size_t key_step, value_step;
	size_t n; /* entries, those without a value (0) among them */
	/* As long as these words are what they were, entries stand where they stood. */
	struct py_word proof[4];
	unsigned nproof;
};

/* 0, -EPROTO when there is no dict, -E2BIG when it has more than PY_DICT_MAX entries, or -errno of
 * the reading. The layout is that of Objects/dict-common.h (3.8 to 3.10) or
 * Include/internal/pycore_dict.h (3.11 to 3.13). */
enum { PY_DICT_MAX = 4096 };
int py_dict_open(const struct py_runtime *rt, uint64_t addr, struct py_dict *out);

/* The attributes that the object at `obj`, of class `type`, has itself: its __dict__, or what it
 * has until that is asked for (3.11+). As above; -ENOENT when objects of its class have none. */
int py_attributes_open(const struct py_runtime *rt, uint64_t obj, uint64_t type,
		       struct py_dict *out);

/* Keys and values of all entries into out[d->n]; a value of 0: there is none. 0 or -errno. */
int py_dict_read(const struct py_runtime *rt, const struct py_dict *d, uint64_t out[][2]);

#endif
