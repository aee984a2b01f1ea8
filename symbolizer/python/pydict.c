#include "symbolizer/python/internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Include/object.h. */
#define TPFLAGS_INLINE_VALUES (1ULL << 2) /* 3.13 */
#define TPFLAGS_MANAGED_DICT (1ULL << 4)  /* 3.11+ */
#define TPFLAGS_DICT_SUBCLASS (1ULL << 29)

/* PyDictObject and PyTypeObject: Include/cpython/dictobject.h, Include/cpython/object.h, 3.8 to
 * 3.13. */
enum { DICT_USED = 16, DICT_KEYS = 32, TYPE_BASICSIZE = 32, TYPE_DICTOFFSET = 288 };

/* ht_cached_keys of a PyHeapTypeObject, Include/cpython/object.h. */
enum { CACHED_KEYS_311 = 872, CACHED_KEYS_312 = 880 };

struct keys {
	uint64_t entries, n;
	size_t entry; /* size in bytes; the last 16 are key and value */
};

static uint64_t word_of(const uint8_t *bytes, size_t at)
{
	uint64_t w;

	memcpy(&w, bytes + at, sizeof(w));
	return w;
}

/* dk_refcnt, dk_size, dk_lookup, dk_usable, dk_nentries, dk_indices. */
static int keys_before_311(const uint8_t head[40], uint64_t at, struct keys *k)
{
	uint64_t size = word_of(head, 8);
	unsigned width = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;

	if (!size || size & (size - 1) || size > 1U << 20)
		return -EPROTO;
	*k = (struct keys){.entries = at + 40 + size * width, .n = word_of(head, 32), .entry = 24};
	return k->n <= size ? 0 : -EPROTO;
}

/* dk_refcnt, dk_log2_size, dk_log2_index_bytes, dk_kind (0: any keys, with hashes; 1: strings; 2:
 * strings, values stored separately), dk_version, dk_usable, dk_nentries, dk_indices. */
static int keys_from_311(const uint8_t head[40], uint64_t at, struct keys *k)
{
	uint8_t log2_size = head[8], log2_bytes = head[9], kind = head[10];

	if (log2_size > 20 || log2_bytes > 23 || log2_bytes < log2_size || kind > 2)
		return -EPROTO;
	*k = (struct keys){.entries = at + 32 + (1ULL << log2_bytes),
			   .n = word_of(head, 24),
			   .entry = kind ? 16 : 24};
	return k->n <= 1ULL << log2_size ? 0 : -EPROTO;
}

static int open_keys(const struct py_runtime *rt, uint64_t at, struct keys *k)
{
	uint8_t head[40];
	int rc = mem_read(rt->mem, at, head, sizeof(head));

	if (rc)
		return rc;
	return rt->layout.minor >= 11 ? keys_from_311(head, at, k) : keys_before_311(head, at, k);
}

static void prove(struct py_dict *d, uint64_t at, uint64_t is)
{
	d->proof[d->nproof++] = (struct py_word){at, is};
}

/* 0, -EAGAIN, or -errno of a read. */
static int is_proven(const struct py_runtime *rt, const struct py_dict *d)
{
	uint64_t at[sizeof(d->proof) / sizeof(d->proof[0])], now[sizeof(at) / sizeof(at[0])];

	for (unsigned i = 0; i < d->nproof; i++)
		at[i] = d->proof[i].at;
	int rc = mem_read_words(rt->mem, at, now, d->nproof);
	for (unsigned i = 0; i < d->nproof && !rc; i++)
		rc = now[i] == d->proof[i].is ? 0 : -EAGAIN;
	return rc;
}

/* Set the entries from the keys object at `keys`; `values`: address of separate values, or 0. */
static int open_entries(const struct py_runtime *rt, uint64_t keys, uint64_t values,
			struct py_dict *d)
{
	struct keys k;
	int rc = open_keys(rt, keys, &k);

	if (rc)
		return rc;
	d->entries = k.entries;
	d->key_at = k.entries + k.entry - 16;
	d->key_step = k.entry;
	d->value_at = values ? values : d->key_at + 8;
	d->value_step = values ? 8 : k.entry;
	d->n = k.n;
	return k.n > PY_DICT_MAX ? -E2BIG : 0;
}

/* Bytes before the values in struct _dictvalues: four, padded, since 3.13. */
static uint64_t values_head(const struct py_runtime *rt)
{
	return rt->layout.minor >= 13 ? 8 : 0;
}

static int dict_open_once(const struct py_runtime *rt, uint64_t addr, struct py_dict *out)
{
	enum { USED, VERSION, KEYS, VALUES, WORDS };
	uint64_t type, flags = 0, w[WORDS];
	int rc = py_object_type(rt, addr, &type);

	*out = (struct py_dict){0};
	if (!rc)
		rc = mem_read_u64(rt->mem, type + rt->layout.obj.type_flags, &flags);
	if (!rc && !(flags & TPFLAGS_DICT_SUBCLASS))
		rc = -EPROTO;
	if (!rc)
		rc = mem_read(rt->mem, addr + DICT_USED, w, sizeof(w));
	if (rc)
		return rc;
	out->is_counted = true;
	out->used = w[USED];
	prove(out, addr + DICT_KEYS, w[KEYS]);
	prove(out, addr + DICT_KEYS + 8, w[VALUES]);
	rc = open_entries(rt, w[KEYS], w[VALUES] ? w[VALUES] + values_head(rt) : 0, out);
	/* dictresize (Objects/dictobject.c, up to 3.12) puts the new keys in place before it fills
	 * them, and frees the old ones. */
	if (!rc && w[USED] > out->n)
		return -EAGAIN;
	return rc && is_proven(rt, out) ? -EAGAIN : rc;
}

int py_dict_open(const struct py_runtime *rt, uint64_t addr, struct py_dict *out)
{
	int rc = dict_open_once(rt, addr, out);

	if (!rc || rc == -EAGAIN)
		return rc;
	/* Keys that are freed, used for something else and allocated again at the same address are
	 * proven. */
	return dict_open_once(rt, addr, out) == rc ? rc : -EAGAIN;
}

/* Address of the inline values of an object without a __dict__; 0: it has one, or they are not
 * valid. Include/internal/pycore_object.h: _PyObject_ValuesPointer (3.11),
 * _PyObject_DictOrValuesPointer (3.12: the lowest bit is set), _PyObject_InlineValues (3.13). */
static int find_values(const struct py_runtime *rt, uint64_t obj, uint64_t type, uint64_t flags,
		       uint64_t managed, uint64_t *values)
{
	uint8_t head[4];
	uint64_t size;
	int rc;

	*values = 0;
	if (rt->layout.minor == 11)
		return managed ? 0 : mem_read_u64(rt->mem, obj - 32, values);
	if (rt->layout.minor == 12) {
		*values = managed & 1 ? managed + 1 : 0;
		return 0;
	}
	if (managed || !(flags & TPFLAGS_INLINE_VALUES))
		return 0;
	rc = mem_read_u64(rt->mem, type + TYPE_BASICSIZE, &size);
	if (!rc)
		rc = mem_read(rt->mem, obj + size, head, sizeof(head));
	if (!rc && head[3] == 1) /* valid */
		*values = obj + size + values_head(rt);
	return rc;
}

static int open_managed(const struct py_runtime *rt, uint64_t obj, uint64_t type, uint64_t flags,
			struct py_dict *out)
{
	uint64_t keys_at = type + (rt->layout.minor == 11 ? CACHED_KEYS_311 : CACHED_KEYS_312);
	uint64_t managed, values, keys;
	int rc = mem_read_u64(rt->mem, obj - 24, &managed);

	if (!rc)
		rc = find_values(rt, obj, type, flags, managed, &values);
	if (!rc && !values)
		rc = managed & 7 || !managed ? -EPROTO : py_dict_open(rt, managed, out);
	else if (!rc)
		rc = mem_read_u64(rt->mem, keys_at, &keys);
	if (rc)
		return rc;
	prove(out, obj - 24, managed);
	if (!values)
		return 0;
	prove(out, keys_at, keys);
	if (rt->layout.minor == 11)
		prove(out, obj - 32, values);
	return open_entries(rt, keys, values, out);
}

int py_attributes_open(const struct py_runtime *rt, uint64_t obj, uint64_t type,
		       struct py_dict *out)
{
	uint64_t flags, off, dict;
	int rc = mem_read_u64(rt->mem, type + rt->layout.obj.type_flags, &flags);

	*out = (struct py_dict){0};
	if (!rc && rt->layout.minor >= 11 && flags & TPFLAGS_MANAGED_DICT)
		return open_managed(rt, obj, type, flags, out);
	if (!rc)
		rc = mem_read_u64(rt->mem, type + TYPE_DICTOFFSET, &off);
	if (!rc && (off == 0 || off > 1U << 16)) /* negative for variable-size objects */
		rc = -ENOENT;
	if (!rc)
		rc = mem_read_u64(rt->mem, obj + off, &dict);
	if (!rc)
		rc = dict ? py_dict_open(rt, dict, out) : -ENOENT;
	if (!rc)
		prove(out, obj + off, dict);
	return rc;
}

/* Read the words at `at`, `at` + `step`, ... into every second element of `out`. */
static int read_column(const struct py_runtime *rt, uint64_t at, size_t step, size_t n,
		       uint64_t *out)
{
	enum { SOME = 64, STEP_MAX = 24 };
	uint8_t bytes[SOME * STEP_MAX];

	for (size_t i = 0; i < n; i += SOME) {
		size_t some = n - i < SOME ? n - i : SOME;
		int rc = mem_read(rt->mem, at + i * step, bytes, (some - 1) * step + 8);

		if (rc)
			return rc;
		for (size_t k = 0; k < some; k++)
			out[2 * (i + k)] = word_of(bytes, k * step);
	}
	return 0;
}

static int read_pairs(const struct py_runtime *rt, const struct py_dict *d, uint64_t out[][2])
{
	int rc = read_column(rt, d->key_at, d->key_step, d->n, &out[0][0]);

	return rc ? rc : read_column(rt, d->value_at, d->value_step, d->n, &out[0][1]);
}

int py_dict_read(const struct py_runtime *rt, const struct py_dict *d, uint64_t out[][2])
{
	int rc = read_pairs(rt, d, out), proven = is_proven(rt, d);

	return proven ? proven : rc;
}

/* Characters of valid UTF-8. */
static uint64_t characters(const char *s)
{
	uint64_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

/* The place of `name` among n pairs, of which those whose keys have as many characters are
 * compared; `words` has room for 2 * n. -ENOENT, -errno. */
static ssize_t find_key(const struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
			uint64_t *words, const char *name)
{
	size_t size = strlen(name) + 1, k = 0;
	char *text = malloc(size);
	ssize_t rc = -ENOENT;

	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (pairs[i][1] && pairs[i][0] >= 4096)
			words[k++] = pairs[i][0] + rt->layout.obj.str_length;
	if (k && mem_read_words(rt->mem, words, words + n, k))
		rc = -EAGAIN;
	for (size_t i = 0, at = 0; i < n && rc == -ENOENT; i++) {
		if (!pairs[i][1] || pairs[i][0] < 4096 || words[n + at++] != characters(name))
			continue;
		if (py_read_str(rt, pairs[i][0], text, size) < 0 || strcmp(text, name) != 0)
			continue;
		rc = (ssize_t)i;
	}
	free(text);
	return rc;
}

/* Whether these are all entries. Keys that were freed and allocated again at the same address,
 * twice since the dict was opened, may be half filled. */
static bool has_all(const struct py_dict *d, const uint64_t pairs[][2])
{
	uint64_t used = 0;
	for (size_t i = 0; i < d->n; i++)
		used += pairs[i][1] && pairs[i][0] >= 4096;
	return !d->is_counted || used == d->used;
}

/* As find_key; the pair found is part of the proof. */
static int find_pair(const struct py_runtime *rt, struct py_dict *d, uint64_t pairs[][2],
		     const char *name, uint64_t *value)
{
	ssize_t i = find_key(rt, (const uint64_t(*)[2])pairs, d->n, pairs[d->n], name);

	if (i < 0)
		return i == -ENOENT && !has_all(d, (const uint64_t(*)[2])pairs) ? -EAGAIN : (int)i;
	*value = pairs[i][1];
	prove(d, d->key_at + (uint64_t)i * d->key_step, pairs[i][0]);
	prove(d, d->value_at + (uint64_t)i * d->value_step, pairs[i][1]);
	return 0;
}

int py_dict_find(const struct py_runtime *rt, const struct py_dict *dict, const char *name,
		 uint64_t *value)
{
	struct py_dict d = *dict;
	uint64_t(*pairs)[2] = calloc(2 * d.n + 1, sizeof(*pairs));

	if (!pairs)
		return -ENOMEM;
	int rc = read_pairs(rt, &d, pairs);
	/* Its keys are in place again, but what was read had been something else. */
	rc = rc ? -EAGAIN : find_pair(rt, &d, pairs, name, value);
	free(pairs);
	int proven = is_proven(rt, &d);

	return proven ? proven : rc;
}

int py_dict_get(const struct py_runtime *rt, uint64_t dict, const char *name, uint64_t *value)
{
	struct py_dict d;
	int rc = py_dict_open(rt, dict, &d);

	if (rc == -E2BIG && d.n <= 1 << 16)
		rc = 0;
	return rc ? rc : py_dict_find(rt, &d, name, value);
}

/* The __dict__ of a module in sys.modules, of any interpreter. 0, -ENOENT, or -errno of a read. */
static int py_module_dict(const struct py_runtime *rt, const char *module, uint64_t *dict)
{
	/* md_dict of PyModuleObject: Objects/moduleobject.c (3.8),
	 * Include/internal/pycore_moduleobject.h. */
	enum { MD_DICT = 16 };
	const struct py_walk *w = &rt->layout.walk;
	uint64_t interp, modules, found;
	int rc = py_read_word(rt, w->interp_head_addr, &interp);

	for (unsigned i = 0; !rc && interp && i < PY_MAX_INTERPRETERS; i++) {
		rc = py_read_word(rt, interp + rt->layout.modules, &modules);
		if (!rc)
			rc = py_dict_get(rt, modules, module, &found);
		if (!rc)
			return py_read_word(rt, found + MD_DICT, dict);
		if (rc == -ENOENT)
			rc = py_read_word(rt, interp + w->interp_next, &interp);
	}
	return rc ? rc : -ENOENT;
}

int py_module_get(const struct py_runtime *rt, const char *module, const char *name,
		  uint64_t *value)
{
	uint64_t dict;
	int rc = py_module_dict(rt, module, &dict);

	return rc ? rc : py_dict_get(rt, dict, name, value);
}

/* A slot is described by a member_descriptor of its class: d_member of PyMemberDescrObject
 * (Include/descrobject.h, Include/cpython/descrobject.h), which has the offset of the value in the
 * object (PyMemberDef: Include/structmember.h, Include/descrobject.h). */
static int slot_get(const struct py_runtime *rt, uint64_t obj, uint64_t type, const char *name,
		    uint64_t *value)
{
	enum { D_MEMBER = 40, OFFSET = 16, MAX_OFFSET = 1 << 16 };
	uint64_t dict, descriptor, kind, member, at;
	char text[32];
	int rc = py_type_dict(rt, type, &dict);

	if (!rc)
		rc = py_dict_get(rt, dict, name, &descriptor);
	if (!rc)
		rc = py_object_type(rt, descriptor, &kind);
	if (rc)
		return rc;
	if (py_type_name(rt, kind, text, sizeof(text)) < 0 || strcmp(text, "member_descriptor"))
		return -ENOENT;
	rc = py_read_word(rt, descriptor + D_MEMBER, &member);
	if (!rc)
		rc = py_read_word(rt, member + OFFSET, &at);
	if (!rc && (at > MAX_OFFSET || at % 8))
		rc = -EPROTO;
	if (!rc)
		rc = py_read_word(rt, obj + at, value);
	return rc ? rc : *value ? 0 : -ENOENT;
}

int py_attribute_get(const struct py_runtime *rt, uint64_t obj, const char *name, uint64_t *value)
{
	struct py_dict d;
	uint64_t type;
	int rc = py_object_type(rt, obj, &type);

	if (rc)
		return rc;
	rc = py_attributes_open(rt, obj, type, &d);
	if (!rc)
		rc = py_dict_find(rt, &d, name, value);
	return rc == -ENOENT ? slot_get(rt, obj, type, name, value) : rc;
}

static int64_t loader_worker(const struct py_runtime *rt)
{
	uint64_t info, id;
	int rc = py_module_get(rt, "torch.utils.data._utils.worker", "_worker_info", &info);

	if (!rc)
		rc = py_attribute_get(rt, info, "id", &id);
	return rc ? rc : py_read_int(rt, id);
}

int64_t python_loader_worker(const struct py_runtime *rt)
{
	int64_t n = -EAGAIN;

	for (int i = 0; i < PY_TRIES && n == -EAGAIN; i++)
		n = loader_worker(rt);
	return n;
}

static int check_tid(const struct py_runtime *rt, uint64_t thread, int32_t tid)
{
	uint64_t id;
	int rc = py_attribute_get(rt, thread, "_native_id", &id);

	return rc ? rc : py_read_int(rt, id) == tid ? 0 : -ENOENT;
}

/* The name of the Thread object if it is that of thread `tid`, else -ENOENT. */
static ssize_t name_if(const struct py_runtime *rt, uint64_t thread, int32_t tid, char *out,
		       size_t size)
{
	uint64_t name;
	int rc = check_tid(rt, thread, tid);

	if (!rc)
		rc = py_attribute_get(rt, thread, "_name", &name);
	ssize_t len = rc ? rc : py_read_str(rt, name, out, size);
	/* The name may have been read of another thread, whose object is at this address now. */
	return len >= 0 && check_tid(rt, thread, tid) ? -EAGAIN : len;
}

/* The name that one of the n Thread objects has, of which every second word is the address. */
static ssize_t name_among(const struct py_runtime *rt, const uint64_t pairs[][2], size_t n,
			  int32_t tid, char *out, size_t size)
{
	ssize_t failed = -ENOENT;

	for (size_t i = 0; i < n; i++) {
		ssize_t len = pairs[i][1] ? name_if(rt, pairs[i][1], tid, out, size) : -ENOENT;

		if (len >= 0)
			return len;
		if (len != -ENOENT)
			failed = len;
	}
	return failed;
}

static ssize_t thread_name(const struct py_runtime *rt, int32_t tid, char *out, size_t size)
{
	uint64_t active;
	struct py_dict d;
	int rc = py_module_get(rt, "threading", "_active", &active);

	if (!rc)
		rc = py_dict_open(rt, active, &d);
	if (rc)
		return rc;
	uint64_t(*pairs)[2] = calloc(2 * d.n + 1, sizeof(*pairs));
	rc = pairs ? py_dict_read(rt, &d, pairs) : -ENOMEM;
	ssize_t n = rc ? rc : name_among(rt, (const uint64_t(*)[2])pairs, d.n, tid, out, size);
	/* The object of a thread that ended meanwhile may be freed. */
	if (!rc && n < 0 &&
	    (py_dict_read(rt, &d, pairs + d.n) || memcmp(pairs, pairs + d.n, d.n * sizeof(*pairs))))
		n = -EAGAIN;
	free(pairs);
	return n;
}

ssize_t python_thread_name(const struct py_runtime *rt, int32_t tid, char *out, size_t size)
{
	ssize_t n = -EAGAIN;

	for (int i = 0; i < PY_TRIES && n == -EAGAIN; i++)
		n = thread_name(rt, tid, out, size);
	return n;
}
