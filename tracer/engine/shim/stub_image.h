/* The memory for stubs (tracer/engine/shim/jumps.h) as an ELF file, for debuggers and profilers: by
 * its unwinding table they step from a stub to the function with the jump. Each part of a pool is
 * preceded by a page that this is in. */
#ifndef TRACER_ENGINE_SHIM_STUB_IMAGE_H
#define TRACER_ENGINE_SHIM_STUB_IMAGE_H

#include <elf.h>
#include <stdint.h>

enum {
	STUB_IMAGE = 4096,	   /* bytes before a part of a pool */
	STUB_IMAGE_MOST = 2 << 20, /* bytes of the file, and of the largest part with its page */
};

/* Beside the library's file. The rest of the STUB_IMAGE_MOST bytes are zeros. */
#define STUB_IMAGE_FILE "libditrace_stubs.so"

struct stub_image {
	Elf64_Ehdr head;
	Elf64_Phdr segment[2];
	/* .eh_frame_hdr (Linux Standard Base Core, 10.6.2): a table with the one entry */
	struct {
		uint8_t version, frame_enc, count_enc, table_enc;
		int32_t frame;
		uint32_t count;
		int32_t start, entry;
	} search;
	/* .eh_frame (10.6.1) */
	struct {
		uint32_t cie_len, cie_id;
		uint8_t cie[12];
		uint32_t fde_len, fde_cie;
		int32_t start;
		uint32_t len;
		uint8_t none, rules[103];
		uint32_t end;
	} frame;
	Elf64_Sym symbol[2];
	char names[64];
	Elf64_Shdr section[7];
};
_Static_assert(sizeof(struct stub_image) <= STUB_IMAGE, "it fits into its page");

/* Make it, for `len` bytes of memory, the image's page included, at address `addr`; 0: for a file.
 */
void stub_image_make(struct stub_image *out, uint64_t addr, uint64_t len);

#endif
