/* The packets of Perfetto's own format: messages of protocol buffers
 * (https://protobuf.dev/programming-guides/encoding), with the fields of
 * protos/perfetto/trace/perfetto_trace.proto. Names are written once and then named by number. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "perf/export/internal.h"

/* Numbers of fields. */
enum {
	TRACE_PACKET = 1,

	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	COUNTER_UNIT = 3,

	EVENT_CATEGORY = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_COUNTER = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	ANNOTATION_NAME = 1,
	ANNOTATION_UINT = 3,
	ANNOTATION_STRING = 17,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_ANNOTATION = 3,
	INTERNED_STRING = 29,
	INTERNED_IID = 1,
	INTERNED_TEXT = 2,
};

enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum { UNIT_BYTES = 3 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
enum { SEQUENCE = 1 };

static const uint8_t interned_fields[PERFETTO_TEXTS] = {
    [PERFETTO_CATEGORIES] = INTERNED_CATEGORY,
    [PERFETTO_NAMES] = INTERNED_NAME,
    [PERFETTO_ANNOTATIONS] = INTERNED_ANNOTATION,
    [PERFETTO_STRINGS] = INTERNED_STRING,
};

static void put_varint(struct perfetto_message *p, uint64_t n)
{
	if (array_grow(&p->bytes, &p->room, p->n + 10, 1)) {
		p->failed = true;
		return;
	}
	for (; n >= 0x80; n >>= 7)
		p->bytes[p->n++] = (uint8_t)(n | 0x80);
	p->bytes[p->n++] = (uint8_t)n;
}

static void put_int(struct perfetto_message *p, unsigned field, uint64_t n)
{
	put_varint(p, field << 3);
	put_varint(p, n);
}

static void put_fixed(struct perfetto_message *p, unsigned field, uint64_t n)
{
	put_varint(p, field << 3 | 1);
	if (array_grow(&p->bytes, &p->room, p->n + 8, 1)) {
		p->failed = true;
		return;
	}
	for (int i = 0; i < 8; i++)
		p->bytes[p->n++] = (uint8_t)(n >> 8 * i);
}

static void put_bytes(struct perfetto_message *p, unsigned field, const void *bytes, size_t n)
{
	put_varint(p, field << 3 | 2);
	put_varint(p, n);
	if (array_grow(&p->bytes, &p->room, p->n + n + 1, 1)) {
		p->failed = true;
		return;
	}
	memcpy(p->bytes + p->n, bytes, n);
	p->n += n;
}

/* Strings have to be UTF-8: what is not becomes U+FFFD. */
static void put_text(struct perfetto_message *p, unsigned field, const char *s)
{
	char safe[2048];
	size_t n = 0;
	uint32_t cp;
	for (size_t left = strnlen(s, sizeof(safe) / 3), len; left; left -= len, s += len) {
		len = text_utf8(s, left, &cp);
		memcpy(safe + n, len ? s : "\xef\xbf\xbd", len ? len : 3);
		n += len ? len : 3;
		len = len ? len : 1;
	}
	put_bytes(p, field, safe, n);
}

/* Moves a message into another. */
static void put_message(struct perfetto_message *p, unsigned field,
			struct perfetto_message *message)
{
	put_bytes(p, field, message->bytes ? message->bytes : (const uint8_t *)"", message->n);
	p->failed |= message->failed;
	message->n = 0;
}

/* The number of a text, which the next packet introduces if it is new. */
static uint64_t number_of(struct perfetto *x, enum perfetto_texts of, const char *text)
{
	bool is_new;
	int64_t id = intern(&x->texts[of], text, (uint32_t)strlen(text), &is_new);
	if (id < 0) {
		x->packet.failed = true;
		return 0;
	}
	if (is_new) {
		struct perfetto_message entry = {0};
		put_int(&entry, INTERNED_IID, (uint64_t)id + 1);
		put_text(&entry, INTERNED_TEXT, text);
		put_message(&x->interned, interned_fields[of], &entry);
		free(entry.bytes);
	}
	return (uint64_t)id + 1;
}

/* Write the packet with what was put into it. */
static void end_packet(struct perfetto *x)
{
	struct perfetto_message head = {0};
	put_int(&x->packet, PACKET_SEQUENCE, SEQUENCE);
	put_int(&x->packet, PACKET_FLAGS,
		x->has_begun ? STATE_NEEDED : STATE_CLEARED | STATE_NEEDED);
	if (x->interned.n)
		put_message(&x->packet, PACKET_INTERNED, &x->interned);
	x->has_begun = true;
	put_varint(&head, TRACE_PACKET << 3 | 2);
	put_varint(&head, x->packet.n);
	fwrite_unlocked(head.bytes, 1, head.n, x->f);
	fwrite_unlocked(x->packet.bytes, 1, x->packet.n, x->f);
	x->packet.failed |= head.failed;
	x->packet.n = 0;
	free(head.bytes);
}

uint64_t perfetto_track(struct perfetto *x, enum perfetto_track_kind kind, int32_t pid, int32_t tid,
			bool *is_new)
{
	/* Small numbers take few bytes. */
	const int32_t key[3] = {kind, pid, tid};
	int64_t id = intern(&x->tracks, key, sizeof(key), is_new);
	x->packet.failed |= id < 0;
	return (uint64_t)id + 1;
}

uint64_t perfetto_describe(struct perfetto *x, enum perfetto_track_kind kind, int32_t pid,
			   int32_t tid, const char *name, bool again)
{
	bool is_new = false;
	uint64_t uuid = perfetto_track(x, kind, pid, tid, &is_new);
	if (!is_new && !again)
		return uuid;
	put_int(&x->event, TRACK_UUID, uuid);
	if (kind == PERFETTO_OF_PROCESS) {
		put_int(&x->inner, PROCESS_PID, (uint64_t)pid);
		put_text(&x->inner, PROCESS_NAME, name);
		put_message(&x->event, TRACK_PROCESS, &x->inner);
	} else {
		put_int(&x->inner, THREAD_PID, (uint64_t)pid);
		put_int(&x->inner, THREAD_TID, (uint64_t)tid);
		if (name)
			put_text(&x->inner, THREAD_NAME, name);
		put_message(&x->event, TRACK_THREAD, &x->inner);
	}
	put_message(&x->packet, PACKET_TRACK, &x->event);
	end_packet(x);
	return uuid;
}

uint64_t perfetto_describe_below(struct perfetto *x, uint64_t parent, enum perfetto_track_kind kind,
				 int32_t a, int32_t b, const char *name)
{
	bool is_new = false;
	uint64_t uuid = perfetto_track(x, kind, a, b, &is_new);
	if (!is_new)
		return uuid;
	put_int(&x->event, TRACK_UUID, uuid);
	put_text(&x->event, TRACK_NAME, name);
	put_int(&x->event, TRACK_PARENT, parent);
	if (kind == PERFETTO_OF_MEMORY) {
		put_int(&x->inner, COUNTER_UNIT, UNIT_BYTES);
		put_message(&x->event, TRACK_COUNTER, &x->inner);
	}
	put_message(&x->packet, PACKET_TRACK, &x->event);
	end_packet(x);
	return uuid;
}

uint64_t perfetto_track_of_process(struct perfetto *x, int32_t pid)
{
	bool is_new;
	return perfetto_track(x, PERFETTO_OF_PROCESS, pid, 0, &is_new);
}

void perfetto_end_event(struct perfetto *x, uint64_t ns)
{
	uint64_t origin = trace_query_origin(x->query);
	put_int(&x->packet, PACKET_TIMESTAMP, ns > origin ? ns - origin : 0);
	put_message(&x->packet, PACKET_EVENT, &x->event);
	end_packet(x);
}

void perfetto_begin_slice(struct perfetto *x, uint64_t track, const char *category,
			  const char *name)
{
	put_int(&x->event, EVENT_TYPE, SLICE_BEGIN);
	put_int(&x->event, EVENT_TRACK, track);
	put_int(&x->event, EVENT_CATEGORY, number_of(x, PERFETTO_CATEGORIES, category));
	put_int(&x->event, EVENT_NAME, number_of(x, PERFETTO_NAMES, name));
}

void perfetto_end_slice(struct perfetto *x, uint64_t track, uint64_t ns)
{
	put_int(&x->event, EVENT_TYPE, SLICE_END);
	put_int(&x->event, EVENT_TRACK, track);
	perfetto_end_event(x, ns);
}

void perfetto_annotate(struct perfetto *x, const char *name, const char *text, uint64_t n)
{
	if (text && !text[0])
		return;
	put_int(&x->inner, ANNOTATION_NAME, number_of(x, PERFETTO_ANNOTATIONS, name));
	if (text)
		put_int(&x->inner, ANNOTATION_STRING, number_of(x, PERFETTO_STRINGS, text));
	else
		put_int(&x->inner, ANNOTATION_UINT, n);
	put_message(&x->event, EVENT_ANNOTATION, &x->inner);
}

void perfetto_flow(struct perfetto *x, uint64_t id, bool ends)
{
	put_fixed(&x->event, ends ? EVENT_FLOW_END : EVENT_FLOW, id);
}

void perfetto_counter(struct perfetto *x, uint64_t track, uint64_t ns, uint64_t value)
{
	put_int(&x->event, EVENT_TYPE, COUNTER);
	put_int(&x->event, EVENT_TRACK, track);
	put_int(&x->event, EVENT_COUNTER, value);
	perfetto_end_event(x, ns);
}

void perfetto_free(struct perfetto *x)
{
	for (int i = 0; i < PERFETTO_TEXTS; i++)
		intern_free(&x->texts[i]);
	intern_free(&x->tracks);
	free(x->interned.bytes);
	free(x->event.bytes);
	free(x->inner.bytes);
	free(x->packet.bytes);
}
