/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health probe of a server, without I/O: GET over HTTP/1.1, or gRPC's Check over HTTP/2.
 */
#ifndef SL_ORIGIN_PROBE_H
#define SL_ORIGIN_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORIGIN_PROBE_TEXT = 256, ORIGIN_PROBE_REQUEST = 1024 };

struct origin_probe_target {
	bool grpc, secure; /* secure: over TLS */
	const char *authority;
	const char *path;    /* HTTP/1.1 */
	const char *service; /* gRPC; "": the whole server */
	uint16_t expect;
};

enum origin_probe_result { ORIGIN_PROBE_PENDING, ORIGIN_PROBE_OK, ORIGIN_PROBE_FAILED };

struct origin_probe {
	bool grpc;
	uint16_t expect;
	/* HTTP/1.1: status line. HTTP/2: frame header, then message. */
	uint8_t head[16], message[16];
	uint32_t head_len, message_len;
	uint32_t left; /* of the frame */
	char why[64];
};

/* Writes the request to `to`. Returns its length, or 0 if it does not fit. */
size_t origin_probe_begin(struct origin_probe *p, const struct origin_probe_target *t,
			  uint8_t to[ORIGIN_PROBE_REQUEST]);
/* Takes input. ORIGIN_PROBE_FAILED: see p->why. Must not be called after a result. */
enum origin_probe_result origin_probe_input(struct origin_probe *p, const uint8_t *bytes,
					    size_t len);

#endif
