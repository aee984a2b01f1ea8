/* A hit (tracer/plan.h) as it is put together in user space, and sent in parts when it is long. */
#ifndef TRACER_HIT_BUF_H
#define TRACER_HIT_BUF_H

#include <stdbool.h>

#include "tracer/plan.h"

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
	__u32 off;	 /* bytes so far */
	struct hit *hit; /* the record, at the start of `bytes` */
	__u8 *bytes;
	_Alignas(8) __u8 own[HIT_BUF_MAX + HIT_BUF_SLACK];
};

/* Begin a hit with this head. `gap` is the thread's, read and set when records are sent. */
void hit_buf_begin(struct hit_buf *b, const struct hit *head, bool *gap);

/* The next item, without payload so far. Valid until the next item begins. */
struct item *hit_buf_item(struct hit_buf *b, __u8 kind, __u8 read, __u32 aux);

/* Where the next `len` bytes of payload go, and that they went there; padding to 8 bytes is seen
 * to. */
void *hit_buf_room(struct hit_buf *b, __u32 len);
void hit_buf_grow(struct hit_buf *b, __u32 len);

/* Append payload, padded to 8 bytes. An item takes at most HIT_BUF_SLACK bytes in all. Its `len` is
 * the caller's to set. Returns where the bytes went. */
void *hit_buf_put(struct hit_buf *b, const void *bytes, __u32 len);
void hit_buf_word(struct hit_buf *b, __u64 w);

void hit_buf_send(struct hit_buf *b);

#endif
