/* SPDX-License-Identifier: Apache-2.0 */
/* A server of HTTP/2 for the bed of agents (agent_bed.h), which speaks frame by frame. */
#ifndef SL_TESTS_AGENT_H2_H
#define SL_TESTS_AGENT_H2_H

#include "agent/internal.h"
#include "origin/h2.h"
#include "base/bytes.h"
#include "agent_bed.h"

enum {
	DATA = 0,
	HEADERS = 1,
	RST_STREAM = 3,
	SETTINGS = 4,
	GOAWAY = 7,
	WINDOW_UPDATE = 8,
	CONTINUATION = 9
};
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, FRAME_MAX = 16384, PREFACE = 24, FRAME_HEAD = 9 };

static const uint8_t ok[] = {0x88}; /* :status 200 */
static const uint8_t trailers[] = "\x00\x0bgrpc-status\x01"
				  "0";

static inline void frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t len)
{
	uint8_t bytes[FRAME_HEAD + FRAME_MAX] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8),
						 (uint8_t)len, type, flags};

	sl_put_be32(bytes + 5, id);
	if (len)
		memcpy(bytes + FRAME_HEAD, payload, len);
	bed_server_say(bytes, FRAME_HEAD + len);
}

static inline void head(uint32_t id)
{
	frame(HEADERS, END_HEADERS, id, ok, sizeof(ok));
}

static inline void tail(uint32_t id)
{
	frame(HEADERS, END_HEADERS | END_STREAM, id, trailers, sizeof(trailers) - 1);
}

/* How many frames of this kind the agent has said on a stream; *sum: of their first words. */
static inline unsigned said(uint8_t type, uint32_t id, uint64_t *sum)
{
	unsigned n = 0;

	*sum = 0;
	bed_server_hear();
	for (size_t at = PREFACE; at + FRAME_HEAD <= bed.heard_len;) {
		const uint8_t *f = bed.heard + at;
		size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];

		if (at + FRAME_HEAD + len > bed.heard_len)
			break;
		if (f[3] == type && sl_get_be32(f + 5) == id) {
			*sum += len >= 4 ? sl_get_be32(f + FRAME_HEAD) : 0;
			n++;
		}
		at += FRAME_HEAD + len;
	}
	return n;
}

/* Bytes of DATA that the agent has said on a stream. */
static inline size_t data_of(uint32_t id)
{
	size_t sum = 0;

	bed_server_hear();
	for (size_t at = PREFACE; at + FRAME_HEAD <= bed.heard_len;) {
		const uint8_t *f = bed.heard + at;
		size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];

		if (f[3] == DATA && sl_get_be32(f + 5) == id)
			sum += len;
		at += FRAME_HEAD + len;
	}
	return sum;
}

/* A literal field without indexing; lengths are strings, as "\x03". */
#define FIELD(name_len, name, value_len, value) "\x00" name_len name value_len value

/* Sends a request; the first one on a connection makes the server accept and greet. */
static inline struct bed_request *ask_as(enum sl_proto proto, bool stream)
{
	struct bed_request *r = bed_ask(proto, stream);

	if (bed.server_fd < 0) {
		bed_server_accept();
		frame(SETTINGS, 0, 0, NULL, 0);
		frame(SETTINGS, ACK, 0, NULL, 0);
	}
	bed_turns(4);
	return r;
}

#endif
