/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over UDP: one datagram each for request and reply, little-endian.
 *
 *   request  = struct sl_datagram_request, method, payload, padding
 *   reply    = struct sl_datagram_reply, payload
 *
 * - A reply is never larger than its request, because source addresses can be spoofed. Pad the
 *   request with zeros for a larger reply. Others are SL_DATAGRAM_REPLY_TOO_LARGE without payload.
 * - Retry a request without a reply with the same id, content, length, source address and port. Only
 *   the deadline may shrink. A retry shorter than its kept reply gets SL_DATAGRAM_REPLY_TOO_LARGE.
 * - The gateway drops retries of pending requests. It repeats replies of up to 1472 bytes until 10
 *   s after the last one, if they are among its last 16,000.
 * - The client chooses ids, unique among its requests of the last minute and preferably random.
 * - Datagrams that are not requests are dropped. Requests of another version get
 *   SL_DATAGRAM_VERSION.
 */
#ifndef SLUICE_DATAGRAM_H
#define SLUICE_DATAGRAM_H

#include <stdint.h>

#define SL_DATAGRAM_MAGIC 0x47444c53u /* "SLDG" */

enum {
	SL_DATAGRAM_VERSION_1 = 1,
	SL_DATAGRAM_HEAD = 24, /* length of either header */
	SL_DATAGRAM_MAX = 65507,
};

enum sl_datagram_type { SL_DATAGRAM_REQUEST = 1, SL_DATAGRAM_REPLY = 2 };

enum sl_datagram_status {
	SL_DATAGRAM_OK = 0,          /* reply of a backend: see `code` */
	SL_DATAGRAM_VERSION,         /* `version` is the supported one */
	SL_DATAGRAM_NO_SERVICE,      /* no route has this service number */
	SL_DATAGRAM_TOO_LARGE,       /* above the limit of the route */
	SL_DATAGRAM_REPLY_TOO_LARGE, /* pad the request, or use another protocol */
	SL_DATAGRAM_OVERLOADED,      /* not executed; retry later */
	SL_DATAGRAM_EXPIRED,         /* deadline passed */
	SL_DATAGRAM_UNAVAILABLE,     /* no backend, or it failed */
	SL_DATAGRAM_INTERNAL,
};

struct sl_datagram_request {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint16_t service; /* datagram_service of a route; not 0 */
	uint64_t id;
	uint32_t deadline_us; /* relative deadline; 0: that of the route */
	uint16_t method_len;  /* text, like an HTTP path; may be 0 */
	uint16_t payload_len;
} __attribute__((packed));

struct sl_datagram_reply {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint16_t status;     /* enum sl_datagram_status */
	uint64_t id;         /* that of the request */
	uint32_t service_us; /* of the backend; 0: unknown */
	uint16_t code;       /* OK: HTTP status of the backend, default 200; otherwise 0 */
	uint16_t payload_len;
} __attribute__((packed));

#ifdef __cplusplus
static_assert(sizeof(struct sl_datagram_request) == 24 && sizeof(struct sl_datagram_reply) == 24,
	      "");
#else
_Static_assert(sizeof(struct sl_datagram_request) == SL_DATAGRAM_HEAD, "wire format");
_Static_assert(sizeof(struct sl_datagram_reply) == SL_DATAGRAM_HEAD, "wire format");
#endif

#endif
