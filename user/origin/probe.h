/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health probe of a server, as bytes: GET over HTTP/1.1, or Check of grpc.health.v1.Health over
 * HTTP/2. The owner has the socket and the clock.
 *
 *   origin_probe_begin -> bytes to send -> origin_probe_input ... until it is not PENDING
 */
#ifndef SL_ORIGIN_PROBE_H
#define SL_ORIGIN_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORIGIN_PROBE_TEXT = 256, ORIGIN_PROBE_REQUEST = 1024 };

struct origin_probe_target {
	bool grpc;
	const char *authority;
	const char *path;    /* HTTP/1.1 */
	const char *service; /* gRPC; "": the server as a whole */
	uint16_t expect;     /* HTTP status */
};

enum origin_probe_result { ORIGIN_PROBE_PENDING, ORIGIN_PROBE_OK, ORIGIN_PROBE_FAILED };

struct origin_probe {
	bool grpc;
	uint16_t expect;
	/* HTTP/1.1: start of the status line. HTTP/2: head of a frame, then the message. */
	uint8_t head[16], message[16];
	uint32_t head_len, message_len;
	uint32_t left; /* of the frame */
	char why[64];  /* FAILED */
};

/* Writes the request. Returns its length; 0: it does not fit. */
size_t origin_probe_begin(struct origin_probe *p, const struct origin_probe_target *t,
			  uint8_t to[ORIGIN_PROBE_REQUEST]);
/* Takes bytes of the server. Must not be called after a result. */
enum origin_probe_result origin_probe_input(struct origin_probe *p, const uint8_t *bytes,
					    size_t len);

#endif
