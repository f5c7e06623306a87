/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC calls over h2_talk.h: what goes out as messages, what comes back as bytes and a status. */
#ifndef GRPC_TALK_H
#define GRPC_TALK_H

#include "front/grpc/grpc.h"
#include "h2_talk.h"

#define S(lit) sl_span_str(lit)

/* Frames received on a stream since the connection was opened. */
static struct {
	uint8_t data[1 << 20];
	size_t len;
	int status; /* -1: none yet */
	bool end, reset;
	char fields[1000]; /* last header block: "name: value\n" */
} got;

static inline void note_field(const nghttp2_nv *nv)
{
	size_t n = strlen(got.fields);

	if (sl_span_eq(sl_span_of(nv->name, nv->namelen), S(":status")))
		n = 0;
	snprintf(got.fields + n, sizeof(got.fields) - n, "%.*s: %.*s\n", (int)nv->namelen, nv->name,
		 (int)nv->valuelen, nv->value);
}

static inline void collect(uint32_t stream)
{
	const uint8_t *p = (const uint8_t *)m->out, *end = p + m->out_len;
	nghttp2_hd_inflater *hd;

	got.len = 0;
	got.status = -1;
	got.end = got.reset = false;
	got.fields[0] = 0;
	ck_assert_int_eq(nghttp2_hd_inflate_new(&hd), 0);
	while (end - p >= 9) {
		uint32_t len = sl_get_be24(p), id = sl_get_be32(p + 5);
		const uint8_t *in = p + 9;
		size_t left = len;

		if (id == stream && p[3] <= 1 && (p[4] & 1))
			got.end = true;
		if (id == stream && p[3] == 3)
			got.reset = true;
		if (id == stream && p[3] == 0) {
			memcpy(got.data + got.len, in, len);
			got.len += len;
		}
		while (p[3] == 1) {
			int flags = 0;
			nghttp2_nv nv;
			ssize_t n = nghttp2_hd_inflate_hd2(hd, &nv, &flags, in, left, 1);

			ck_assert_int_ge(n, 0);
			in += n;
			left -= (size_t)n;
			if ((flags & NGHTTP2_HD_INFLATE_EMIT) && id == stream)
				note_field(&nv);
			if ((flags & NGHTTP2_HD_INFLATE_EMIT) && id == stream &&
			    sl_span_eq(sl_span_of(nv.name, nv.namelen), S("grpc-status")))
				got.status = atoi((char *)nv.value);
			if (flags & NGHTTP2_HD_INFLATE_FINAL) {
				nghttp2_hd_inflate_end_headers(hd);
				break;
			}
		}
		p += 9 + len;
	}
	nghttp2_hd_inflate_del(hd);
}

static inline void send_frame(unsigned type, unsigned flags, uint32_t id, struct sl_span payload)
{
	static uint8_t frame[1 << 17];

	put_be24(frame, (uint32_t)payload.len);
	frame[3] = (uint8_t)type;
	frame[4] = (uint8_t)flags;
	sl_put_be32(frame + 5, id);
	if (payload.len)
		memcpy(frame + 9, payload.ptr, payload.len);
	mock_input(m, frame, 9 + payload.len);
}

/* The head of a call on a stream. */
static inline void call(uint32_t id, const char *path)
{
	uint8_t head[256] = {0x83, 0x86, 0x04};
	static const uint8_t type[] = "\x41\x01"
				      "a\x0f\x10\x10"
				      "application/grpc";
	size_t len = strlen(path);

	head[3] = (uint8_t)len;
	memcpy(head + 4, path, len);
	memcpy(head + 4 + len, type, sizeof(type) - 1);
	send_frame(1, 4, id, sl_span_of(head, 4 + len + sizeof(type) - 1));
}

static inline void ask(uint32_t id, struct sl_span message, bool end)
{
	static uint8_t framed[1 << 16];

	sl_grpc_put_prefix(framed, (uint32_t)message.len);
	memcpy(framed + SL_GRPC_PREFIX, message.ptr, message.len);
	send_frame(0, end, id, sl_span_of(framed, SL_GRPC_PREFIX + message.len));
}

static inline void ck_got(uint32_t id, struct sl_span data, int status)
{
	collect(id);
	ck_assert_uint_eq(got.len, data.len);
	if (data.len)
		ck_assert_mem_eq(got.data, data.ptr, data.len);
	ck_assert_int_eq(got.status, status);
	ck_assert_int_eq(got.end, status >= 0);
}

static inline void open_conn(void)
{
	mock_open(m);
	talk("");
}

#endif
