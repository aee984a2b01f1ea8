/* An invented build of libtorch: classes with type information and some code in the test's own
 * memory, and tensors in any layout. */
#ifndef TESTS_UNIT_FAKETORCH_H
#define TESTS_UNIT_FAKETORCH_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/target/process.h"
#include "symbolizer/torch/layout.h"

enum { FAKE_BYTES = 1 << 16, FAKE_TOP = 0x200 };

static const uint64_t FAKE_BASE = 0x7f0000000000;

/* Offsets of the invented build. */
struct invented {
	unsigned storage, autograd, sizes, offset, numel, dtype, device, engaged, flags;
	unsigned data; /* in StorageImpl; its size is 0x20 further */
	unsigned grad_fn, requires_grad, view_base, view_has_base;
};

struct fake {
	struct mem mem; /* first member: fake_read casts back from it */
	uint8_t bytes[FAKE_BYTES];
	size_t used;
	struct invented in;
	uint64_t tensor, derived, undefined, storage, meta, view, node, other; /* vtables */
	uint32_t random;
};

static inline int fake_read(const struct mem *m, uint64_t addr, void *buf, size_t len)
{
	const struct fake *f = (const struct fake *)m;
	if (addr < FAKE_BASE || addr - FAKE_BASE > FAKE_BYTES ||
	    len > FAKE_BYTES - (addr - FAKE_BASE))
		return -EFAULT;
	memcpy(buf, f->bytes + (addr - FAKE_BASE), len);
	return 0;
}

static inline uint32_t fake_random(struct fake *f, uint32_t below)
{
	f->random = f->random * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(f->random >> 4) * below >> 28);
}

static inline uint64_t fake_put(struct fake *f, const void *data, size_t len)
{
	f->used = (f->used + 15) & ~(size_t)15;
	if (f->used + len > FAKE_BYTES)
		abort();
	uint64_t at = FAKE_BASE + f->used;
	memcpy(f->bytes + f->used, data, len);
	f->used += len;
	return at;
}

/* A type_info; `base` 0: none. `kind` is the name of the type_info's own class. */
static inline uint64_t fake_type(struct fake *f, const char *name, uint64_t base)
{
	const char *kind =
	    base ? "N10__cxxabiv120__si_class_type_infoE" : "N10__cxxabiv117__class_type_infoE";
	uint64_t own[2] = {0, fake_put(f, kind, strlen(kind) + 1)};
	uint64_t vtable[3] = {0, fake_put(f, own, sizeof(own)), 0};
	uint64_t info[3] = {fake_put(f, vtable, sizeof(vtable)) + 16,
			    fake_put(f, name, strlen(name) + 1), base};
	return fake_put(f, info, sizeof(info));
}

/* A vtable for the class with type_info `type`: the address that objects hold. */
static inline uint64_t fake_vtable(struct fake *f, uint64_t type, uint64_t method0,
				   uint64_t method1)
{
	uint64_t v[6] = {0, type, method0, method1, method0, method0};
	return fake_put(f, v, sizeof(v)) + 16;
}

static inline void fake_disp(uint8_t *code, unsigned at, unsigned disp)
{
	uint32_t d = disp;
	memcpy(code + at, &d, 4);
}

/* bool AutogradMeta::requires_grad() const, as gcc 12 compiles it. */
static inline uint64_t fake_requires_grad(struct fake *f)
{
	uint8_t code[] = {
	    0x0f, 0xb6, 0x87, 0,    0,	  0,	0,    /* movzx eax, byte [rdi + requires_grad] */
	    0x84, 0xc0, 0x75, 0x0b,		      /* test al, al; jne ret */
	    0x48, 0x83, 0xbf, 0,    0,	  0,	0, 0, /* cmp qword [rdi + grad_fn], 0 */
	    0x0f, 0x95, 0xc0, 0xc3, 0x90, 0x90,	      /* setne al; ret */
	};
	fake_disp(code, 3, f->in.requires_grad);
	fake_disp(code, 14, f->in.grad_fn);
	return fake_put(f, code, sizeof(code));
}

/* The same of DifferentiableViewMeta. */
static inline uint64_t fake_view_requires_grad(struct fake *f)
{
	uint8_t code[] = {
	    0x0f, 0xb6, 0x87, 0,    0,	  0,	0,	 /* movzx eax, byte [rdi + requires_grad] */
	    0x84, 0xc0, 0x75, 0x0f,			 /* test al, al; jne ret */
	    0x48, 0x83, 0xbf, 0,    0,	  0,	0, 0,	 /* cmp qword [rdi + grad_fn], 0 */
	    0xb8, 1,	0,    0,    0,	  0x74, 1, 0xc3, /* mov eax, 1; je on; ret */
	    0x0f, 0xb6, 0x87, 0,    0,	  0,	0,	 /* on: movzx eax, byte [rdi + has_base] */
	    0x84, 0xc0, 0x74, 0xf4,			 /* test al, al; je ret */
	    0x48, 0x8b, 0xbf, 0,    0,	  0,	0,	 /* mov rdi, [rdi + base] */
	    0xe9, 0,	0,    0,    0x10,		 /* jmp far away */
	};
	fake_disp(code, 3, f->in.requires_grad);
	fake_disp(code, 14, f->in.grad_fn);
	fake_disp(code, 30, f->in.view_has_base);
	fake_disp(code, 41, f->in.view_base);
	return fake_put(f, code, sizeof(code));
}

static inline void fake_init(struct fake *f, const struct invented *in, uint32_t seed)
{
	static const uint8_t ret[] = {0x48, 0x8d, 0x47,
				      0x28, 0xc3, 0x90}; /* lea rax, [rdi + 40]; ret */
	memset(f, 0, sizeof(*f));
	f->mem.read = fake_read;
	f->in = *in;
	f->random = seed;
	uint64_t m = fake_put(f, ret, sizeof(ret));
	uint64_t target = fake_type(f, "N3c1020intrusive_ptr_targetE", 0);
	uint64_t tensor = fake_type(f, "N3c1010TensorImplE", target);
	f->tensor = fake_vtable(f, tensor, m, m);
	f->derived = fake_vtable(f, fake_type(f, "N5vendr10TensorImplE", tensor), m, m);
	f->undefined = fake_vtable(f, fake_type(f, "N3c1019UndefinedTensorImplE", tensor), m, m);
	f->storage = fake_vtable(f, fake_type(f, "N3c1011StorageImplE", target), m, m);
	uint64_t meta = fake_type(f, "N5torch8autograd12AutogradMetaE", target);
	f->meta = fake_vtable(f, meta, m, fake_requires_grad(f));
	f->view = fake_vtable(f, fake_type(f, "N5torch8autograd22DifferentiableViewMetaE", meta), m,
			      fake_view_requires_grad(f));
	f->node = fake_vtable(f, fake_type(f, "N5torch8autograd4NodeE", 0), m, m);
	f->other = fake_vtable(f, fake_type(f, "5Other", 0), m, m);
}

struct fake_tensor {
	unsigned ndim;
	int64_t size[5], stride[5];
	uint16_t dtype;
	unsigned itemsize;
	int64_t offset;
	int64_t spare; /* extra elements of storage */
	uint64_t data;
	uint64_t meta_vtable; /* 0: no AutogradMeta */
	bool requires_grad;
};

static inline int64_t fake_numel(const struct fake_tensor *t)
{
	int64_t n = 1;
	for (unsigned d = 0; d < t->ndim; d++)
		n *= t->size[d];
	return n;
}

static inline void fake_contiguous(struct fake_tensor *t)
{
	int64_t step = 1;
	for (unsigned d = t->ndim; d-- > 0;) {
		t->stride[d] = step;
		step *= t->size[d];
	}
}

static inline int64_t fake_extent(const struct fake_tensor *t)
{
	int64_t n = 1;
	for (unsigned d = 0; d < t->ndim; d++)
		n += (t->size[d] - 1) * t->stride[d];
	return fake_numel(t) ? n : 0;
}

static inline void fake_word(uint8_t *p, unsigned off, uint64_t w)
{
	memcpy(p + off, &w, 8);
}

/* Other contents of an object: zeros, small counts, pointers. */
static inline void fake_noise(struct fake *f, uint8_t *p, unsigned len)
{
	for (unsigned off = 8; off + 8 <= len; off += 8) {
		uint32_t kind =
		    (off / 8 * 2654435761U >> 28) % 4; /* always the same kind at an offset */
		fake_word(p, off,
			  kind == 0   ? 0
			  : kind == 1 ? 1 + fake_random(f, 3)
			  : kind == 2 ? 0x550000000000u + 16 * (uint64_t)fake_random(f, 1 << 20)
				      : ((uint64_t)fake_random(f, 1 << 28) << 32 |
					 fake_random(f, 1 << 28)));
	}
}

/* The snapshot that probes take of `t`. */
static inline void fake_snapshot(struct fake *f, const struct fake_tensor *t,
				 struct tensor_snapshot *s)
{
	const struct invented *in = &f->in;
	unsigned st = (in->storage - SNAPSHOT_FIRST) / 8, am = (in->autograd - SNAPSHOT_FIRST) / 8;
	memset(s, 0, sizeof(*s));
	s->impl_addr = 0x555500000000 + 64 * fake_random(f, 1 << 20);
	s->impl_len = WIN_MAX;
	fake_noise(f, s->impl, WIN_MAX);
	fake_word(s->impl, 0, f->tensor);
	for (unsigned i = 0; i < SNAPSHOT_PARTS; i++) {
		s->at[i].addr = i == st || (i == am && t->meta_vtable)
				    ? 0x555600000000 + 64 * fake_random(f, 1 << 20)
				    : 0;
		s->at[i].valid = s->at[i].addr != 0;
		s->at[i].len = PART_MAX;
		fake_word(s->impl, SNAPSHOT_FIRST + 8 * i, s->at[i].addr);
	}
	memset(s->impl + in->sizes, 0, 88);
	fake_word(s->impl, in->sizes, t->ndim);
	for (unsigned d = 0; d < t->ndim; d++) {
		fake_word(s->impl, in->sizes + 8 + 8 * d, (uint64_t)t->size[d]);
		fake_word(s->impl, in->sizes + 48 + 8 * d, (uint64_t)t->stride[d]);
	}
	fake_word(s->impl, in->numel, (uint64_t)fake_numel(t));
	fake_word(s->impl, in->offset, (uint64_t)t->offset);
	fake_word(s->impl, in->dtype & ~7u, 0);
	fake_word(s->impl, in->device & ~7u, 0);
	memcpy(s->impl + in->dtype, &t->dtype, 2);
	s->impl[in->device] = 0;
	s->impl[in->device + 1] = 0xff;
	s->impl[in->engaged] = 1;
	uint8_t *p = s->at[st].bytes;
	fake_noise(f, p, PART_MAX);
	fake_word(p, 0, f->storage);
	fake_word(p, in->data, t->data);
	fake_word(p, in->data + 8, 0x7fff00000040);
	fake_word(p, in->data + 16, t->data);
	fake_word(p, in->data + 24, 0xff00);
	fake_word(p, in->data + 32,
		  (uint64_t)(t->offset + fake_extent(t) + t->spare) * t->itemsize);
	p = s->at[am].bytes;
	fake_noise(f, p, PART_MAX);
	fake_word(p, 0, t->meta_vtable);
	fake_word(p, in->grad_fn, 0);
	p[in->requires_grad] = t->requires_grad;
}

/* A tensor as in training: mostly fresh, sometimes a view of another. */
static inline struct fake_tensor fake_ordinary(struct fake *f)
{
	static const struct {
		uint16_t code;
		unsigned size;
	} dtype[] = {{6, 4}, {6, 4}, {6, 4}, {4, 8}, {11, 1}};
	unsigned k = fake_random(f, 5);
	struct fake_tensor t = {
	    .dtype = dtype[k].code, .itemsize = dtype[k].size, .ndim = fake_random(f, 5)};
	for (unsigned d = 0; d < t.ndim; d++)
		t.size[d] = 1 + fake_random(f, 40);
	fake_contiguous(&t);
	t.data = 0x7f1200000000 + 64 * fake_random(f, 1 << 20);
	if (!fake_random(f, 4)) {
		t.offset = 1 + fake_random(f, 1000);
		t.spare = fake_random(f, 1000);
	}
	if (!fake_random(f, 3)) {
		t.meta_vtable = fake_random(f, 2) ? f->meta : f->view;
		t.requires_grad = fake_random(f, 2);
	}
	return t;
}

/* A random layout, with the fields in any order. */
static inline struct invented fake_layout(uint32_t seed)
{
	struct fake f = {.random = seed};
	struct invented in = {0};
	unsigned first = fake_random(&f, 3), second = (first + 1 + fake_random(&f, 2)) % 3;
	unsigned at = 0x28 + 8 * fake_random(&f, 5), order = fake_random(&f, 4);
	in.storage = SNAPSHOT_FIRST + 8 * first;
	in.autograd = SNAPSHOT_FIRST + 8 * second;
	for (unsigned step = 0; step < 4; step++) {
		switch ((step + order) % 4) {
		case 0:
			in.sizes = at;
			at += 88;
			break;
		case 1:
			in.offset = at;
			at += 8;
			break;
		case 2:
			in.numel = at;
			at += 8;
			break;
		default:
			in.dtype = at + 2 * fake_random(&f, 2);
			in.engaged = at + (fake_random(&f, 2) ? 4 : 7);
			in.device = in.engaged == at + 4 ? at + 5 : at + 5;
			at += 8;
		}
	}
	in.data = 0x10 + 8 * fake_random(&f, 6);
	in.grad_fn = 0x28 + 8 * fake_random(&f, 4);
	in.requires_grad = 0x60 + fake_random(&f, 0x40);
	in.view_has_base = 0xe0 + fake_random(&f, 0x40);
	in.view_base = 0x140;
	return in;
}

#endif
