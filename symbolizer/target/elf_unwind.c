#include "symbolizer/target/elf.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Entries {code, unwind entry}, both relative to the section *base, sorted, as --eh-frame-hdr
 * writes them (encoding 0x3b: datarel, signed, 4 bytes; Linux Standard Base Core 5.0, 10.6.2). */
static const int32_t (*unwind_table(struct elf_file *f, uint64_t *base, uint32_t *n))[2]
{
	size_t size;
	const uint8_t *h = elf_section(f, ".eh_frame_hdr", base, &size);
	/* version 1; pointer to .eh_frame pcrel sdata4; count udata4; table datarel sdata4 */
	if (!h || (uintptr_t)h & 3 || size < 12 || h[0] != 1 || h[1] != 0x1b || h[2] != 0x03 ||
	    h[3] != 0x3b)
		return NULL;
	memcpy(n, h + 8, sizeof(*n));
	return *n <= (size - 12) / 8 ? (const int32_t(*)[2])(h + 12) : NULL;
}

/* Number of entries for code up to `vaddr`: the last of them is the one that may have it. */
static uint32_t unwind_search(const int32_t (*t)[2], uint32_t n, uint64_t base, uint64_t vaddr)
{
	uint32_t low = 0;
	for (uint32_t high = n; low < high;) {
		uint32_t mid = low + (high - low) / 2;
		if (base + (uint64_t)(int64_t)t[mid][0] <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The beginning of an unwind entry: length, distance of its CIE, start and length of the code. */
struct fde {
	uint32_t length, cie;
	int32_t start;
	uint32_t size;
};

/* The unwind entry for the code at `vaddr`, with its address *at and the *start of the code. That
 * the start is relative to its own place is assumed, and verified by comparison with the table. */
static bool fde_find(struct elf_file *f, uint64_t vaddr, struct fde *fde, uint64_t *at,
		     uint64_t *start)
{
	uint64_t base;
	uint32_t n;
	const int32_t(*t)[2] = unwind_table(f, &base, &n);
	uint32_t upto = t ? unwind_search(t, n, base, vaddr) : 0;
	if (!upto)
		return false;
	*start = base + (uint64_t)(int64_t)t[upto - 1][0];
	*at = base + (uint64_t)(int64_t)t[upto - 1][1];
	const uint8_t *p = elf_bytes(f, *at, sizeof(*fde));
	if (!p)
		return false;
	memcpy(fde, p, sizeof(*fde));
	return *at + offsetof(struct fde, start) + (uint64_t)(int64_t)fde->start == *start &&
	       vaddr - *start < fde->size;
}

uint64_t elf_piece_at(struct elf_file *f, uint64_t vaddr, uint64_t *start)
{
	struct fde fde;
	uint64_t at;
	return fde_find(f, vaddr, &fde, &at, start) ? fde.size : 0;
}

uint64_t elf_function_size(struct elf_file *f, uint64_t vaddr)
{
	uint64_t start, size = elf_piece_at(f, vaddr, &start);
	return size && start == vaddr ? size : 0;
}

/* Encodings of pointers (Linux Standard Base Core 5.0, 10.5): the form, and what is added. */
enum {
	ENC_FORM = 0x0f,
	ENC_ABSPTR = 0x00,
	ENC_ULEB = 0x01,
	ENC_UDATA4 = 0x03,
	ENC_UDATA8 = 0x04,
	ENC_SDATA4 = 0x0b,
	ENC_SDATA8 = 0x0c,
	ENC_PCREL = 0x10,
	ENC_NONE = 0xff,
};

/* Bytes being read; `bad` is set, and zeros are read, beyond the end. */
struct cursor {
	const uint8_t *p, *end;
	uint64_t at; /* address of *p */
	bool bad;
};

static void cursor_take(struct cursor *c, void *out, size_t n)
{
	memset(out, 0, n);
	if ((size_t)(c->end - c->p) < n) {
		c->bad = true;
		return;
	}
	memcpy(out, c->p, n);
	c->p += n;
	c->at += n;
}

static uint8_t take_byte(struct cursor *c)
{
	uint8_t b;
	cursor_take(c, &b, sizeof(b));
	return b;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64 && !c->bad; shift += 7) {
		uint8_t b = take_byte(c);
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	c->bad = true;
	return 0;
}

static uint64_t take_encoded(struct cursor *c, uint8_t encoding)
{
	uint64_t at = c->at, v = 0;
	int32_t word;
	switch (encoding & ENC_FORM) {
	case ENC_ULEB:
		v = take_uleb(c);
		break;
	case ENC_UDATA4:
		cursor_take(c, &word, sizeof(word));
		v = (uint32_t)word;
		break;
	case ENC_SDATA4:
		cursor_take(c, &word, sizeof(word));
		v = (uint64_t)(int64_t)word;
		break;
	case ENC_ABSPTR:
	case ENC_UDATA8:
	case ENC_SDATA8:
		cursor_take(c, &v, sizeof(v));
		break;
	default:
		c->bad = true;
	}
	if ((encoding & ~ENC_FORM) == ENC_PCREL)
		return v ? at + v : 0;
	c->bad |= (encoding & ~ENC_FORM) != 0;
	return v;
}

/* The `len` bytes of section `name` from address `at`; to its end if len is 0. */
static struct cursor cursor_in(struct elf_file *f, const char *name, uint64_t at, uint64_t len)
{
	uint64_t start;
	size_t size;
	const uint8_t *p = elf_section(f, name, &start, &size);
	if (!p || at < start || at - start >= size || len > size - (at - start))
		return (struct cursor){.bad = true};
	p += at - start;
	return (struct cursor){.p = p, .end = p + (len ? len : size - (at - start)), .at = at};
}

/* The body of the entry at address `at` of .eh_frame, behind its length. */
static struct cursor entry_at(struct elf_file *f, uint64_t at)
{
	struct cursor c = cursor_in(f, ".eh_frame", at, 4);
	uint32_t len;
	cursor_take(&c, &len, sizeof(len));
	/* 0: the end; ~0: an entry of more than 4 GiB */
	if (c.bad || !len || len == UINT32_MAX)
		return (struct cursor){.bad = true};
	return cursor_in(f, ".eh_frame", c.at, len);
}

/* Read the common part of unwind entries at `at`, for the encoding of the address of the table of
 * exceptions; ENC_NONE: they have none. False when it is not as expected. */
static bool read_cie(struct elf_file *f, uint64_t at, uint8_t *lsda)
{
	struct cursor c = entry_at(f, at);
	uint32_t id;
	char letters[8] = "";
	uint8_t version, pointer = 0;
	cursor_take(&c, &id, sizeof(id));
	version = take_byte(&c);
	for (unsigned i = 0; i < sizeof(letters) && (letters[i] = (char)take_byte(&c)); i++)
		;
	take_uleb(&c);
	take_uleb(&c); /* signed, but of the same length */
	if (version == 1)
		take_byte(&c);
	else
		take_uleb(&c);
	*lsda = ENC_NONE;
	if (c.bad || id || letters[sizeof(letters) - 1] || (letters[0] && letters[0] != 'z'))
		return false;
	if (letters[0])
		take_uleb(&c);
	for (const char *l = letters; *l; l++) {
		if (*l == 'P')
			/* the value does not matter: without "indirect" and what is added */
			take_encoded(&c, take_byte(&c) & ENC_FORM);
		else if (*l == 'L')
			*lsda = take_byte(&c);
		else if (*l == 'R')
			pointer = take_byte(&c);
		else if (*l != 'z' && *l != 'S')
			return false;
	}
	return !c.bad && pointer == (ENC_PCREL | ENC_SDATA4);
}

/* Address of the table of exceptions of an unwind entry; *none: it has none. 0 when it is not as
 * expected. */
static uint64_t lsda_of(struct elf_file *f, uint64_t at, const struct fde *fde, bool *none)
{
	struct cursor c = entry_at(f, at);
	uint8_t fields[sizeof(*fde) - offsetof(struct fde, cie)], encoding;
	*none = false;
	if (c.bad || !read_cie(f, c.at - fde->cie, &encoding))
		return 0;
	if (encoding == ENC_NONE) {
		*none = true;
		return 0;
	}
	cursor_take(&c, fields, sizeof(fields));
	take_uleb(&c);
	uint64_t lsda = take_encoded(&c, encoding);
	/* An absolute address may be set by a relocation, and be 0 in the file. */
	c.bad |= (encoding & ~ENC_FORM) != ENC_PCREL;
	*none = !c.bad && !lsda;
	return c.bad ? 0 : lsda;
}

/* The table of call sites (parse_lsda_header and what follows it in libstdc++'s
 * libsupc++/eh_personality.cc, GCC 12). */
static int read_call_sites(struct elf_file *f, uint64_t lsda, uint64_t start, elf_address_fn *fn,
			   void *arg)
{
	struct cursor c = cursor_in(f, ".gcc_except_table", lsda, 0);
	uint8_t encoding = take_byte(&c);
	uint64_t base = encoding == ENC_NONE ? start : take_encoded(&c, encoding);
	c.bad |= encoding != ENC_NONE && (encoding & ~ENC_FORM) != ENC_PCREL;
	if (take_byte(&c) != ENC_NONE)
		take_uleb(&c);
	encoding = take_byte(&c);
	uint64_t len = take_uleb(&c);
	if (c.bad || encoding & ~ENC_FORM || len > (size_t)(c.end - c.p))
		return -ENOEXEC;
	c.end = c.p + len;
	while (c.p < c.end) {
		take_encoded(&c, encoding);
		take_encoded(&c, encoding);
		uint64_t pad = take_encoded(&c, encoding);
		take_uleb(&c);
		if (c.bad)
			return -ENOEXEC;
		int r = pad ? fn(base + pad, arg) : 0;
		if (r)
			return r;
	}
	return 0;
}

int elf_each_landing_pad(struct elf_file *f, uint64_t vaddr, elf_address_fn *fn, void *arg)
{
	struct fde fde;
	uint64_t at, start;
	bool none;
	if (!fde_find(f, vaddr, &fde, &at, &start) || start != vaddr)
		return -ENOENT;
	uint64_t lsda = lsda_of(f, at, &fde, &none);
	if (!lsda)
		return none ? 0 : -ENOEXEC;
	return read_call_sites(f, lsda, start, fn, arg);
}
