/* A hit (symbolizer/plan/plan.h) as it is put together in user space, and sent in parts when it is
 * long. */
#ifndef TRACER_ENGINE_HIT_BUF_H
#define TRACER_ENGINE_HIT_BUF_H

#include <stdbool.h>
#include <string.h>

#include "symbolizer/plan/plan.h"

enum {
	HIT_BUF_MAX = 20 << 10,	  /* a part is sent before it grows beyond this */
	HIT_BUF_SLACK = 20 << 10, /* the most bytes of one item */
};

struct hit_buf {
	/* Takes a record; 0, or -1 when it was lost. */
	int (*sink)(void *arg, const struct hit *h);
	/* May be NULL: where the next record is to be put together, HIT_BUF_MAX + HIT_BUF_SLACK
	 * bytes aligned to 8; it goes to `sink` from there. NULL: there is no such place now. */
	void *(*place)(void *arg);
	void *arg;
	bool dry;	 /* the reads are only tried: nothing is sent */
	bool *gap;	 /* of the thread: its last record was lost */
	bool hold;	 /* the thread is to stand still once the record is sent */
	bool held;	 /* such a record was sent */
	struct hit *hit; /* the record */
	__u8 *at;	 /* where what comes next goes */
	__u8 *full;	 /* behind this no item begins */
	_Alignas(8) __u8 own[HIT_BUF_MAX + HIT_BUF_SLACK];
};

/* Begin a hit, whose head is to be set next, all of it. `gap` is the thread's, read and set when
 * records are sent. */
struct hit *hit_buf_begin(struct hit_buf *b, bool *gap);

/* Send what there is, more is to come. */
void hit_buf_go_on(struct hit_buf *b);

/* The next item, without payload so far. Valid until the next item begins. */
static inline struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux)
{
	if (b->at > b->full)
		hit_buf_go_on(b);
	struct item *it = (struct item *)b->at;
	*it = (struct item){.kind = kind, .read = read, .aux = aux};
	b->at += sizeof(*it);
	return it;
}

/* Where the next `len` bytes of payload go, and that they went there; padding to 8 bytes is seen
 * to. */
static inline void *hit_buf_room(struct hit_buf *b, __u32 len)
{
	if (len & 7)
		memset(&b->at[len & ~7U], 0, 8);
	return b->at;
}

static inline void hit_buf_grow(struct hit_buf *b, __u32 len)
{
	b->at += (len + 7) & ~7U;
}

/* Append payload, padded to 8 bytes. An item takes at most HIT_BUF_SLACK bytes in all. Its `len` is
 * the caller's to set. Returns where the bytes went. */
void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len);

static inline void hit_buf_word(struct hit_buf *b, __u64 w)
{
	memcpy(b->at, &w, sizeof(w));
	b->at += sizeof(w);
}

void hit_buf_send(struct hit_buf *b);

#endif
