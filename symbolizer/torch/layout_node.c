#include <errno.h>
#include <string.h>

#include "symbolizer/torch/internal.h"

enum { NODE_WORDS = 40, FIRST_WORDS = 8 };

/* The offset of the only UINT64_MAX among the first words of an AccumulateGrad node: its sequence
 * number. 0 if there is none, or several. */
static unsigned accumulate_offset(const struct mem *m, uint64_t node)
{
	uint64_t w[FIRST_WORDS];
	unsigned found = 0, count = 0;
	if (mem_read(m, node, w, sizeof(w)))
		return 0;
	for (unsigned i = 1; i < FIRST_WORDS; i++)
		if (w[i] == UINT64_MAX) {
			found = 8 * i;
			count++;
		}
	return count == 1 ? found : 0;
}

static bool is_node(struct rtti *r, uint64_t addr, const char *class)
{
	return rtti_is_a(rtti_of_object(r, addr), class);
}

/* The offset of the sequence number, from an AccumulateGrad that one of the node's edges leads to
 * (the first word of an Edge is the node, torch/csrc/autograd/edge.h); 0 if there is none. */
static unsigned edge_offset(struct rtti *r, const struct mem *m, const uint64_t *words)
{
	for (unsigned i = 1; i + 1 < NODE_WORDS; i++) {
		uint64_t bytes = words[i + 1] - words[i], edges[8];
		/* begin and end of a vector of 16-byte Edges */
		if (words[i] < 0x1000 || words[i] >> 47 || words[i] & 7 || !bytes || bytes % 16 ||
		    bytes > 4096)
			continue;
		uint64_t n = bytes < sizeof(edges) ? bytes : sizeof(edges);
		if (mem_read(m, words[i], edges, (size_t)n))
			continue;
		for (unsigned k = 0; k < n / 8; k += 2) {
			unsigned off;
			if (is_node(r, edges[k], CLASS_ACCUMULATE) &&
			    (off = accumulate_offset(m, edges[k])))
				return off;
		}
	}
	return 0;
}

int layout_learn_node(struct tensor_layout *l, uint64_t node, struct rtti *r, const struct mem *m)
{
	uint64_t words[NODE_WORDS];
	if (l->node_sequence_nr != LAYOUT_NONE)
		return 0;
	if (!node || !is_node(r, node, CLASS_NODE) || mem_read(m, node, words, sizeof(words)))
		return -EAGAIN;
	unsigned off = edge_offset(r, m, words);
	/* ordinary sequence numbers count from 0; a pointer would be far larger */
	if (!off || words[off / 8] >> 40)
		return -EAGAIN;
	l->node_sequence_nr = (uint16_t)off;
	l->unknown &= ~(uint32_t)LAYOUT_NODE;
	return 0;
}
