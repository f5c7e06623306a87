/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client and the third backend of a whole core; the backend has "/o" for itself, and is
 * `other`.
 */
#ifndef CORE_TALK_H
#define CORE_TALK_H

#include <check.h>
#include "core_bed.h"

static inline void set_up(void)
{
	bed_begin();
	for (unsigned i = 0; i < BED_BACKENDS; i++)
		bed_connect(i, false);
	bed_open(0);
}

static inline void tear_down(void)
{
	bed_settle();
	bed_end();
}

static inline struct bed_backend *other(void)
{
	return &bed.backends[2];
}

static inline void say(const char *text)
{
	bed_say(0, text, strlen(text));
	bed_turns(3);
}

/* A message of one entry with a metadata block. */
static inline void reply_with(uint64_t id, uint8_t flags, struct sl_span meta, const char *text)
{
	uint8_t body[4096] = {0};
	struct sl_rpc_entry e = {.id = id,
				 .len = (uint32_t)strlen(text),
				 .meta_len = (uint16_t)meta.len,
				 .flags = flags};
	size_t at = sizeof(e) + sl_rpc_pad8(meta.len);
	struct sl_rpc_header h =
		bed_header(SL_RPC_RESPONSE, 1, 1, (uint32_t)(at + sl_rpc_pad8(e.len)));

	memcpy(body, &e, sizeof(e));
	memcpy(body + sizeof(e), meta.ptr, meta.len);
	memcpy(body + at, text, e.len);
	ck_assert(bed_message(other(), &h, body));
	bed_turns(3);
}

static inline void reply(uint64_t id, uint8_t flags, const char *text)
{
	ck_assert(bed_reply(other(), id, SL_RPC_OK, flags, text));
	bed_turns(3);
}

/* Returns the id of the request with that path; a batch may be in any order. */
static inline uint64_t id_of(const char *path)
{
	static const char mark[] = {SL_META_PATH, 0, 2, 0,
				    '/'}; /* the paths of these tests: "/1" */
	const uint8_t *p = other()->taken, *end = p + other()->taken_len;

	for (unsigned i = 0; i < other()->id_cnt; i++) {
		p = memmem(p, (size_t)(end - p), mark, sizeof(mark));
		ck_assert_ptr_nonnull(p);
		p += sizeof(mark);
		if ((char)*p == path[1])
			return other()->ids[i];
	}
	ck_abort_msg("no request for %s", path);
}

static inline bool heard(const char *text)
{
	const struct bed_client *cl = &bed.clients[0];

	return cl->heard_len && memmem(cl->heard, cl->heard_len, text, strlen(text));
}

static inline unsigned count(const char *text)
{
	const uint8_t *p = bed.clients[0].heard, *end = p + bed.clients[0].heard_len;
	unsigned n = 0;

	while (p < end && (p = memmem(p, (size_t)(end - p), text, strlen(text)))) {
		p += strlen(text);
		n++;
	}
	return n;
}

static inline uint64_t outcomes(enum sl_outcome o)
{
	return bed.core.stats.outcomes[o];
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

/* Requests that a backend got: entries, and the bytes of parts in order. */
static struct {
	char bytes[256];
	size_t len;
	unsigned opened, open, parts, ends; /* open: more is to come behind the head */
} sent;

static inline void look_at(const struct bed_backend *be)
{
	const uint8_t *p = be->taken, *end = p + be->taken_len;
	struct sl_rpc_entry e;

	memset(&sent, 0, sizeof(sent));
	for (; p < end; p += sl_rpc_pad8(e.meta_len) + sl_rpc_pad8(e.len)) {
		memcpy(&e, p, sizeof(e));
		p += sizeof(e);
		sent.opened += e.flags & SL_ENTRY_STREAM ? 1 : 0;
		sent.open += e.flags & SL_ENTRY_STREAM && e.flags & SL_ENTRY_MORE;
		if (!(e.flags & SL_ENTRY_PART))
			continue;
		ck_assert_uint_eq(e.id, be->ids[0]);
		ck_assert(!e.meta_len || !(e.flags & SL_ENTRY_MORE));
		sent.parts++;
		sent.ends += !(e.flags & SL_ENTRY_MORE);
		ck_assert_uint_le(sent.len + e.len, sizeof(sent.bytes));
		memcpy(sent.bytes + sent.len, p, e.len);
		sent.len += e.len;
	}
}

static inline void stream(void)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].stream = true;
}

static inline void ck_sent(const char *text, unsigned ends)
{
	look_at(other());
	ck_assert_uint_eq(sent.len, strlen(text));
	ck_assert_mem_eq(sent.bytes, text, sent.len);
	ck_assert_uint_eq(sent.ends, ends);
}

#define POST(len) "POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: " #len "\r\n\r\n"

#endif
