
#include <stddef.h>
#include <string.h>

#include "tracer/engine/shim/jumps.h"

/* DWARF 5, 2.5, 6.4, 7.7.1; System V ABI for AMD64, 3.6.2, for the registers' numbers. */
enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2U = 0x0a,
	OP_DUP = 0x12,
	OP_SWAP = 0x16,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_GT = 0x2b,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	CFA_DEF_EXPRESSION = 0x0f,
	CFA_VAL_EXPRESSION = 0x16,
	SP = 7,
	PC = 16,
	PCREL_SDATA4 = 0x1b,
	UDATA4 = 0x03,
	DATAREL_SDATA4 = 0x3b,
};

/* From the address of an instruction of a stub. */
#define OFFSET OP_BREG0 + PC, 0, OP_CONST1U, JUMP_STUB - 1, OP_AND
/* The word at its end (jump_stub_x86_64.c): the highest bit tells whether it skips the red zone,
 * the lower 56 are the window's address. */
#define WORD                                                                                       \
	OP_BREG0 + PC, 0, OP_CONST1S, 0x100 - JUMP_STUB, OP_AND, OP_PLUS_UCONST, JUMP_STUB - 8,    \
	    OP_DEREF
#define TOP_BIT OP_CONST1U, 63, OP_SHR

/* The function with the jump is taken for the caller of the stub, and all its registers are as they
 * are; but for the stack pointer, to which is added what the stub has pushed: 8 bytes at offset 5,
 * or 9 in a stub that skips, where it is 128 more at 4, 9 and 15. */
#define PUSHED_8 1 << 5 | 1 << 9
#define SKIPPED 1 << 4 | 1 << 9 | 1 << 15
#define LOW(x) (x) & 0xff, (x) >> 8
#define STACK                                                                                      \
	OP_BREG0 + SP, 0, OP_CONST2U, LOW(PUSHED_8), OFFSET, OP_SHR, OP_LIT0 + 1, OP_AND,          \
	    OP_LIT0 + 3, OP_SHL, OP_PLUS, OP_CONST2U, LOW(SKIPPED), OFFSET, OP_SHR, WORD, TOP_BIT, \
	    OP_AND, OP_LIT0 + 7, OP_SHL, OP_PLUS

/* It stands at the window, or from offset 11 on, of one that skips 19, at the instruction that the
 * stub has in its place. One is added, as from the return address of a call one is subtracted. */
#define CALLER                                                                                     \
	WORD, OP_DUP, OP_LIT0 + 8, OP_SHL, OP_LIT0 + 8, OP_SHR, OP_SWAP, TOP_BIT, OP_LIT0 + 8,     \
	    OP_MUL, OP_PLUS_UCONST, 11, OFFSET, OP_SWAP, OP_MINUS, OP_DUP, OP_LIT0, OP_GT, OP_MUL, \
	    OP_PLUS, OP_PLUS_UCONST, 1

static const uint8_t stack[] = {STACK}, caller[] = {CALLER};
static const uint8_t rules[] = {CFA_DEF_EXPRESSION, sizeof(stack), STACK, CFA_VAL_EXPRESSION, PC,
				sizeof(caller),	    CALLER};
_Static_assert(sizeof(rules) <= sizeof(((struct stub_image *)0)->frame.rules), "no room for them");

/* Version, "zR", alignments of code and of data, the return address, encoding of addresses. */
static const uint8_t cie[] = {1, 'z', 'R', 0, 1, 0x78, PC, 1, PCREL_SDATA4};

#define AT(member) offsetof(struct stub_image, member)
#define SIZE(member) sizeof(((struct stub_image *)0)->member)
static const char names[] = "\0.text\0.eh_frame_hdr\0.eh_frame\0.symtab\0.strtab\0ditrace_stub";
_Static_assert(sizeof(names) <= SIZE(names), "no room for them");
enum { STUBS = STUB_IMAGE + JUMP_POOL_HEAD };

static uint32_t name_at(const char *name)
{
	const char *s = names + 1;
	while (strcmp(s, name))
		s += strlen(s) + 1;
	return (uint32_t)(s - names);
}

static void make_head(struct stub_image *m, uint64_t addr, uint64_t len)
{
	m->head = (Elf64_Ehdr){
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_DYN,
	    .e_machine = EM_X86_64,
	    .e_version = EV_CURRENT,
	    .e_phoff = AT(segment),
	    .e_shoff = AT(section),
	    .e_ehsize = sizeof(Elf64_Ehdr),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = addr ? 0 : SIZE(segment) / sizeof(Elf64_Phdr),
	    .e_shentsize = sizeof(Elf64_Shdr),
	    .e_shnum = SIZE(section) / sizeof(Elf64_Shdr),
	    .e_shstrndx = SIZE(section) / sizeof(Elf64_Shdr) - 1,
	};
	m->segment[0] = (Elf64_Phdr){.p_type = PT_LOAD,
				     .p_flags = PF_R | PF_X,
				     .p_vaddr = addr,
				     .p_paddr = addr,
				     .p_filesz = len,
				     .p_memsz = len,
				     .p_align = STUB_IMAGE};
	m->segment[1] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
				     .p_flags = PF_R,
				     .p_offset = AT(search),
				     .p_vaddr = addr + AT(search),
				     .p_paddr = addr + AT(search),
				     .p_filesz = SIZE(search),
				     .p_memsz = SIZE(search),
				     .p_align = sizeof(uint32_t)};
}

static void make_frame(struct stub_image *m, uint64_t len)
{
	m->search.version = 1;
	m->search.frame_enc = PCREL_SDATA4;
	m->search.count_enc = UDATA4;
	m->search.table_enc = DATAREL_SDATA4;
	m->search.frame = (int32_t)(AT(frame) - AT(search.frame));
	m->search.count = 1;
	m->search.start = (int32_t)(STUBS - AT(search));
	m->search.entry = (int32_t)(AT(frame.fde_len) - AT(search));
	m->frame.cie_len = (uint32_t)(AT(frame.fde_len) - AT(frame.cie_id));
	memcpy(m->frame.cie, cie, sizeof(cie));
	m->frame.fde_len = (uint32_t)(AT(frame.end) - AT(frame.fde_cie));
	m->frame.fde_cie = (uint32_t)(AT(frame.fde_cie) - AT(frame));
	m->frame.start = (int32_t)(STUBS - AT(frame.start));
	m->frame.len = (uint32_t)(len - STUBS);
	memcpy(m->frame.rules, rules, sizeof(rules));
}

static Elf64_Shdr section(const char *name, uint32_t type, uint64_t at, uint64_t size)
{
	return (Elf64_Shdr){.sh_name = name_at(name),
			    .sh_type = type,
			    .sh_offset = at,
			    .sh_size = size,
			    .sh_addralign = 1};
}

static void make_sections(struct stub_image *m, uint64_t addr, uint64_t len)
{
	enum { TEXT = 1, SYMBOLS = 4 };
	Elf64_Shdr *s = m->section;
	s[TEXT] = section(".text", SHT_NOBITS, STUBS, len - STUBS);
	s[2] = section(".eh_frame_hdr", SHT_PROGBITS, AT(search), SIZE(search));
	s[3] = section(".eh_frame", SHT_PROGBITS, AT(frame), SIZE(frame));
	for (unsigned i = TEXT; i <= 3; i++) {
		s[i].sh_addr = addr + s[i].sh_offset;
		s[i].sh_flags = i == TEXT ? SHF_ALLOC | SHF_EXECINSTR : SHF_ALLOC;
	}
	s[SYMBOLS] = section(".symtab", SHT_SYMTAB, AT(symbol), SIZE(symbol));
	s[SYMBOLS].sh_link = SYMBOLS + 1;
	s[SYMBOLS].sh_info = 1;
	s[SYMBOLS].sh_entsize = sizeof(Elf64_Sym);
	s[SYMBOLS + 1] = section(".strtab", SHT_STRTAB, AT(names), SIZE(names));
	s[SYMBOLS + 2] = s[SYMBOLS + 1];
	m->symbol[1] = (Elf64_Sym){.st_name = name_at("ditrace_stub"),
				   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				   .st_shndx = TEXT,
				   .st_value = addr + STUBS,
				   .st_size = len - STUBS};
	memcpy(m->names, names, sizeof(names));
}

void stub_image_make(struct stub_image *out, uint64_t addr, uint64_t len)
{
	memset(out, 0, sizeof(*out));
	make_head(out, addr, len);
	make_frame(out, len);
	make_sections(out, addr, len);
}
