/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of the SDK: a backend whose channels are queues in memory. A test puts REQUEST
 * messages in, polls, and looks at the RESPONSE messages that come out. Nothing is timed.
 */
#ifndef SL_TESTS_SDK_FAKE_H
#define SL_TESTS_SDK_FAKE_H

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"

enum { FAKE_IN = 32768, FAKE_OUT = 32768, FAKE_BODY = 512 << 10 };

struct fake_message {
	struct sl_rpc_header header;
	uint8_t *body;
};

struct fake {
	struct sl_transport base;
	struct fake_message in[FAKE_IN], out[FAKE_OUT];
	unsigned in_cnt, in_next, out_cnt;
	bool closed, broken, halted;
	bool full;  /* it takes nothing */
	bool reads; /* if it does not copy: still, what was posted */
	uint64_t cookies[FAKE_OUT];
	unsigned cookie_cnt;
	uint64_t next_id, flush_ns; /* duration of flush() */
};

static inline int fake_post(struct sl_transport *t, const struct sl_rpc_header *h,
			    const struct sl_span *spans, unsigned cnt, uint64_t cookie)
{
	struct fake *f = (struct fake *)t;
	struct fake_message *m = &f->out[f->out_cnt++];
	uint8_t *at;

	if (cookie)
		f->cookies[f->cookie_cnt++] = cookie;
	ck_assert_uint_lt(f->out_cnt, FAKE_OUT);
	m->header = *h;
	m->body = at = malloc(h->fragment_len + 1);
	for (unsigned i = 0; i < cnt; i++) {
		if (spans[i].len)
			memcpy(at, spans[i].ptr, spans[i].len);
		at += spans[i].len;
	}
	ck_assert_uint_eq((size_t)(at - m->body), h->fragment_len);
	return 0;
}

static inline int fake_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct fake *f = (struct fake *)t;
	unsigned n = 0;

	if (f->broken)
		return -ENOTCONN;
	while (n < max && f->in_next < f->in_cnt) {
		struct fake_message *m = &f->in[f->in_next++];

		msgs[n++] = (struct sl_message){.header = m->header, .body = m->body};
	}
	return (int)n;
}

static inline void fake_nothing(struct sl_transport *t)
{
	(void)t;
}

static inline void fake_flush(struct sl_transport *t)
{
	uint64_t until = sl_now_ns() + ((struct fake *)t)->flush_ns;

	while (sl_now_ns() < until)
		;
}

static inline void fake_release(struct sl_transport *t, const struct sl_message *m)
{
	(void)t, (void)m;
}

static inline unsigned fake_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	struct fake *f = (struct fake *)t;
	unsigned n = 0;

	while (n < max && f->cookie_cnt && !f->reads)
		cookies[n++] = f->cookies[--f->cookie_cnt];
	return n;
}

static inline void fake_halt(struct sl_transport *t)
{
	((struct fake *)t)->halted = true;
}

static inline uint32_t fake_window(const struct sl_transport *t)
{
	return ((const struct fake *)t)->full ? 0 : t->bulk_max;
}

static inline bool fake_arm(struct sl_transport *t, bool want_room)
{
	struct fake *f = (struct fake *)t;

	(void)want_room;
	return f->in_next == f->in_cnt && !f->broken;
}

static inline int fake_check(struct sl_transport *t)
{
	(void)t;
	return 0;
}

static inline void fake_close(struct sl_transport *t)
{
	((struct fake *)t)->closed = true;
}

static const struct sl_transport_ops fake_ops = {
	.name = "fake",
	.post = fake_post,
	.flush = fake_flush,
	.poll = fake_poll,
	.release = fake_release,
	.sent = fake_sent,
	.window = fake_window,
	.progress = fake_nothing,
	.arm = fake_arm,
	.disarm = fake_nothing,
	.check = fake_check,
	.halt = fake_halt,
	.close = fake_close,
};

/* A gateway's transport that is not accepted yet. */
static inline struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->base = (struct sl_transport){.ops = &fake_ops,
					.fd = eventfd(0, EFD_CLOEXEC),
					.copies = true,
					.slot_len = SL_RPC_SLOT_SIZE,
					.bulk_max = FAKE_BODY,
					.slice_min = FAKE_BODY, /* replies are not cut */
					.rate_bps = 1000000000,
					.peer_epoch = 77};
	return f;
}

/* It has connected. */
static inline struct fake *fake_connect(struct sl_backend *b)
{
	struct fake *f = fake_new();

	ck_assert(sl_be_channel_add(b, &f->base));
	return f;
}

static inline void fake_free(struct fake *f)
{
	for (unsigned i = 0; i < f->in_cnt; i++)
		free(f->in[i].body);
	for (unsigned i = 0; i < f->out_cnt; i++)
		free(f->out[i].body);
	close(f->base.fd);
	free(f);
}

/* One request, in a message of its own; claims `len` bytes of body, of which `sent` come. */
static inline void fake_ask_part(struct fake *f, uint64_t id, const void *meta, size_t meta_len,
				 const void *body, uint32_t len, uint32_t sent, unsigned class)
{
	struct fake_message *m = &f->in[f->in_cnt++];
	struct sl_rpc_entry e = {.id = id, .len = len, .meta_len = (uint16_t)meta_len};
	size_t padded = sl_rpc_pad8(meta_len), size = sizeof(e) + padded + sl_rpc_pad8(sent);

	ck_assert_uint_le(f->in_cnt, FAKE_IN);
	m->body = calloc(1, size);
	memcpy(m->body, &e, sizeof(e));
	if (meta_len)
		memcpy(m->body + sizeof(e), meta, meta_len);
	if (sent)
		memcpy(m->body + sizeof(e) + padded, body, sent);
	m->header = (struct sl_rpc_header){
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
		.flags = (uint8_t)(SL_RPC_BATCH | SL_RPC_FIRST | (sent == len ? SL_RPC_LAST : 0)),
		.priority = (uint8_t) class,
		.count = 1,
		.fragment_len = (uint32_t)size,
		.total_or_offset = (uint32_t)(sizeof(e) + padded + sl_rpc_pad8(len)),
		.id = UINT64_C(77) << 48 | ++f->next_id,
	};
}

/* The next `len` bytes of the message that was put in as the index-th, padding and all. */
static inline void fake_go_on(struct fake *f, unsigned index, const void *bytes, uint32_t len)
{
	struct fake_message *m = &f->in[f->in_cnt++];
	const struct sl_rpc_header *first = &f->in[index].header;
	uint32_t offset = 0;

	ck_assert_uint_le(f->in_cnt, FAKE_IN);
	for (unsigned i = index; i + 1 < f->in_cnt; i++)
		offset += f->in[i].header.id == first->id ? f->in[i].header.fragment_len : 0;
	m->header = *first;
	m->header.flags = SL_RPC_BATCH;
	m->header.flags |= offset + len == first->total_or_offset ? SL_RPC_LAST : 0;
	m->header.total_or_offset = offset;
	m->header.fragment_len = len;
	m->body = malloc(len);
	memcpy(m->body, bytes, len);
}

/* Cancels that request. */
static inline void fake_cancel(struct fake *f, uint64_t id)
{
	struct fake_message *m = &f->in[f->in_cnt++];

	ck_assert_uint_le(f->in_cnt, FAKE_IN);
	m->header = (struct sl_rpc_header){.version_type = SL_RPC_VERSION << 4 | SL_RPC_CANCEL,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST,
					   .count = 1,
					   .fragment_len = sizeof(id),
					   .total_or_offset = sizeof(id)};
	m->body = malloc(sizeof(id));
	memcpy(m->body, &id, sizeof(id));
}

static inline void fake_credit(struct fake *f, uint64_t id, uint32_t bytes)
{
	const struct sl_rpc_window w = {.id = id, .bytes = bytes};
	struct fake_message *m = &f->in[f->in_cnt++];

	m->header = (struct sl_rpc_header){.version_type = SL_RPC_VERSION << 4 | SL_RPC_WINDOW,
					   .flags = SL_RPC_FIRST | SL_RPC_LAST,
					   .count = 1,
					   .fragment_len = sizeof(w),
					   .total_or_offset = sizeof(w)};
	m->body = malloc(sizeof(w));
	memcpy(m->body, &w, sizeof(w));
}

/* The same of a client, by the hash of its address. */
static inline void fake_ask_of(struct fake *f, uint64_t id, uint32_t client)
{
	uint8_t meta[8] = {SL_META_CLIENT, 0, 4, 0};

	sl_put_le32(meta + 4, client);
	fake_ask_part(f, id, meta, sizeof(meta), "x", 1, 1, SL_CLASS_NORMAL);
}

static inline void fake_ask(struct fake *f, uint64_t id, const char *body)
{
	uint32_t len = (uint32_t)strlen(body);

	fake_ask_part(f, id, NULL, 0, body, len, len, SL_CLASS_NORMAL);
}

/*
 * The reply to that request: a copy of its entry; false if none has come. *at: behind the entries.
 */
static inline bool fake_answer(const struct fake *f, uint64_t id, struct sl_rpc_entry *e,
			       const uint8_t **at)
{
	for (unsigned i = 0; i < f->out_cnt; i++) {
		const struct fake_message *m = &f->out[i];
		const uint8_t *p = m->body + m->header.count * sizeof(*e);

		if ((m->header.version_type & 15) != SL_RPC_RESPONSE)
			continue;
		for (unsigned k = 0; k < m->header.count; k++) {
			memcpy(e, m->body + k * sizeof(*e), sizeof(*e));
			*at = p;
			if (e->id == id)
				return true;
			p += sl_rpc_pad8(e->meta_len) + sl_rpc_pad8(e->len);
		}
	}
	return false;
}

static inline enum sl_rpc_status fake_status(const struct fake *f, uint64_t id)
{
	struct sl_rpc_entry e;
	const uint8_t *at;

	ck_assert_msg(fake_answer(f, id, &e, &at), "request %lu has no answer", (unsigned long)id);
	return e.status;
}

static inline unsigned fake_count(const struct fake *f, enum sl_rpc_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->out_cnt; i++)
		n += (f->out[i].header.version_type & 15) == type;
	return n;
}

static inline struct sl_backend *fake_backend(sl_batch_fn *handle, void *arg, unsigned max_batch)
{
	char listen[64], err[256] = "";
	struct sl_backend_options opt = {.listen = listen,
					 .on_batch = handle,
					 .arg = arg,
					 .max_batch = max_batch,
					 .inline_handler = true};
	struct sl_backend *b;

	snprintf(listen, sizeof(listen), "shm:///tmp/sl-unit-be-%d.sock", (int)getpid());
	b = sl_backend_open(&opt, err, sizeof(err));
	ck_assert_msg(b != NULL, "%s", err);
	return b;
}

/* Polls until nothing is left to do. */
static inline void fake_settle(struct sl_backend *b)
{
	while (sl_backend_poll(b, 0))
		;
	sl_backend_poll(b, 0);
}

#endif
