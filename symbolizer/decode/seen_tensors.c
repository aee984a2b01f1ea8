/* Tensors decoded before, found again by all that their items say but addresses. Nothing is taken
 * to be as it was: what was read is compared. */
#include <stdlib.h>
#include <string.h>

#include "symbolizer/decode/internal.h"

enum {
	WAYS = 2,
	SETS = 512,
	HEAD_WORDS = 5, /* of a packed item: before the sizes */
	META_WORDS = 3,
};

struct seen_tensor {
	struct seen_key key;	  /* n 0: free */
	uint64_t offset;	  /* bytes from the storage's data to the first element */
	struct seen_tensor *next; /* the one found after it the last time; NULL: none was */
	struct tensor tensor;
};

struct seen_tensors {
	struct seen_tensor *last; /* found; NULL: none was */
	struct seen_tensor of[SETS][WAYS];
};

/* The words of the item after its head and dimensions. */
struct words {
	uint32_t storage, meta, node, end; /* where; 0: not there */
};

static struct words words_of(const struct tensor_read *c, const struct item *i, uint64_t ndim)
{
	struct words w = {0};
	uint32_t at = HEAD_WORDS + 2 * (uint32_t)ndim + (c->win_len - c->tail + 7U) / 8;
	if (i->aux & TPART_STORAGE)
		w.storage = at++;
	if (i->aux & TPART_META) {
		w.meta = at;
		at += META_WORDS;
	}
	if (i->aux & TPART_NODE)
		w.node = at++;
	w.end = at;
	return w;
}

/* Whether an item with these parts may be found again: one in the packed form, and whole. */
static bool is_usual(const struct target *t, const struct tensor_read *c, const struct item *i)
{
	const uint32_t others =
	    TPART_FAULT | TPART_META_FAULT | TPART_OUTLINE | TPART_UNDEFINED | TPART_PACKED;
	return (i->aux & others) == TPART_PACKED && t->layout_known &&
	       !(t->layout.unknown & LAYOUT_NODE) && c->tail && c->tail < c->win_len &&
	       c->storage_len == 8 && (c->pack_meta || !(i->aux & TPART_META)) &&
	       (i->aux & TPART_META || !(i->aux & TPART_NODE));
}

static uint64_t load(const struct item *i, uint32_t word)
{
	uint64_t w;
	memcpy(&w, (const uint8_t *)(i + 1) + 8 * (size_t)word, sizeof(w));
	return w;
}

/* What is done with `n` words from `at` on, of which the key has, if they are addresses, only
 * whether there are any. False ends it. */
typedef bool key_run_fn(uint64_t *key, const uint64_t *item, size_t at, size_t n, bool address);

static inline bool key_run_put(uint64_t *key, const uint64_t *item, size_t at, size_t n,
			       bool address)
{
	if (address)
		key[at] = item[at] != 0;
	else
		memcpy(key + at, item + at, 8 * n);
	return true;
}

static inline bool key_run_is(uint64_t *key, const uint64_t *item, size_t at, size_t n,
			      bool address)
{
	return address ? key[at] == (item[at] != 0) : !memcmp(key + at, item + at, 8 * n);
}

/* All words that a key has: a function for both, as one without the other would be wrong. */
static inline __attribute__((always_inline)) bool key_each(const struct words *w, uint64_t *key,
							   const struct item *i, key_run_fn *fn)
{
	const uint64_t *item = (const uint64_t *)(i + 1);
	const size_t dims = HEAD_WORDS - 1;
	const size_t parts = w->storage ? w->storage : w->meta ? w->meta : w->end;
	return fn(key, item, 1, 1, false) && fn(key, item, 2, 1, true) &&
	       fn(key, item, 3, 1, true) && fn(key, item, dims, parts - dims, false) &&
	       (!w->meta ||
		(fn(key, item, w->meta, 1, false) && fn(key, item, w->meta + 1, 1, true) &&
		 fn(key, item, w->meta + 2, 1, false)));
}

bool seen_key_make(const struct target *t, const struct item *i, struct seen_key *k)
{
	const struct tensor_read *c = &t->reads[t->reading % READS_KEPT];
	const uint32_t n = i->len / 8U;
	if (!is_usual(t, c, i) || i->len % 8U || n < HEAD_WORDS || n > SEEN_WORDS)
		return false;
	const uint64_t ndim = load(i, HEAD_WORDS - 1);
	const struct words w = words_of(c, i, ndim <= c->inline_dims ? ndim : 0);
	if (ndim > c->inline_dims || w.end != n)
		return false;
	k->n = n;
	k->aux = i->aux;
	k->unknown = t->layout.unknown;
	k->reading = t->reading;
	k->generation = (uint16_t)t->conf.generation;
	memset(k->words, 0, i->len);
	return key_each(&w, k->words, i, key_run_put);
}

/* By a hash whose multiplications do not wait for each other. */
static struct seen_tensor *set_of(struct seen_tensors *s, const struct seen_key *k)
{
	const uint64_t multiplier = 0x9e3779b97f4a7c15;
	uint64_t h = k->aux, factor = multiplier;
	for (uint32_t i = 1; i < k->n; i++, factor += 2 * multiplier)
		h += (k->words[i] ^ k->words[i] >> 32) * factor;
	h = (h ^ h >> 32) * multiplier;
	return s->of[h >> 32 & (SETS - 1)];
}

static bool is_same(const struct seen_key *a, const struct seen_key *b)
{
	return a->n == b->n && a->aux == b->aux && a->unknown == b->unknown &&
	       a->reading == b->reading && a->generation == b->generation &&
	       !memcmp(a->words, b->words, a->n * sizeof(a->words[0]));
}

/* Whether an item of the layout in force has this key, without making another. */
static bool item_has_key(const struct target *t, const struct item *i, const struct words *w,
			 struct seen_key *k)
{
	return k->n * 8 == i->len && k->aux == i->aux && k->unknown == t->layout.unknown &&
	       k->reading == t->reading && k->generation == (uint16_t)t->conf.generation &&
	       key_each(w, k->words, i, key_run_is);
}

static struct tensor *tensor_again(struct decode *d, const struct item *i, const struct words *w,
				   const struct seen_tensor *s)
{
	const size_t n = s->tensor.meta.ndim;
	struct tensor *t = arena_alloc(d->arena, sizeof(*t) + 16 * n + 16);
	if (!t)
		return NULL;
	int64_t *dims = (int64_t *)(t + 1);
	*t = s->tensor;
	memcpy(dims, (const uint64_t *)(i + 1) + HEAD_WORDS, 16 * n);
	t->meta.shape = dims;
	t->meta.stride = dims + n;
	t->impl = load(i, 0);
	t->storage = load(i, 2);
	t->data_ptr = t->meta.numel ? load(i, w->storage) + s->offset : 0;
	return t;
}

static struct tensor *found(struct decode *d, const struct item *i, const struct words *w,
			    struct seen_tensor *s, struct seen_node *node)
{
	struct seen_tensors *all = d->target->seen;
	if (all->last)
		all->last->next = s;
	all->last = s;
	node->addr = w->meta ? load(i, w->meta + 1) : 0;
	node->has_seq = w->node;
	node->seq = w->node ? load(i, w->node) : 0;
	return tensor_again(d, i, w, s);
}

/* A training's tensors come in the same order again and again. */
struct tensor *seen_tensors_foreseen(struct decode *d, const struct item *i, struct seen_node *node)
{
	const struct target *t = d->target;
	struct seen_tensor *s = t->seen && t->seen->last ? t->seen->last->next : NULL;
	const struct tensor_read *c = &t->reads[t->reading % READS_KEPT];
	if (!s || !s->key.n || !is_usual(t, c, i))
		return NULL;
	const struct words w = words_of(c, i, s->key.words[HEAD_WORDS - 1]);
	return w.end == s->key.n && item_has_key(t, i, &w, &s->key) ? found(d, i, &w, s, node)
								    : NULL;
}

struct tensor *seen_tensors_find(struct decode *d, const struct item *i, const struct seen_key *k,
				 struct seen_node *node)
{
	struct seen_tensors *all = d->target->seen;
	struct seen_tensor *s = all ? set_of(all, k) : NULL;
	const struct words w =
	    words_of(&d->target->reads[k->reading % READS_KEPT], i, k->words[HEAD_WORDS - 1]);
	unsigned way = 0;
	while (s && way < WAYS && !is_same(&s[way].key, k))
		way++;
	return s && way < WAYS ? found(d, i, &w, &s[way], node) : NULL;
}

void seen_tensors_add(struct target *t, const struct item *i, const struct seen_key *k,
		      struct tensor *tensor)
{
	static uint64_t last;
	const struct words w =
	    words_of(&t->reads[k->reading % READS_KEPT], i, k->words[HEAD_WORDS - 1]);
	if (!w.storage || tensor->meta.unknown || tensor->meta.ndim != k->words[HEAD_WORDS - 1] ||
	    tensor->storage != load(i, 2))
		return;
	if (!t->seen)
		t->seen = calloc(1, sizeof(*t->seen));
	if (!t->seen)
		return;
	tensor->same = ++last;
	struct seen_tensor *s = set_of(t->seen, k);
	s[1] = s[0];
	s[0] = (struct seen_tensor){
	    .key = *k,
	    .offset = tensor->data_ptr - load(i, w.storage),
	    .tensor = *tensor,
	};
}

void seen_tensors_forget(struct target *t)
{
	free(t->seen);
	t->seen = NULL;
}
