/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over UDP: one datagram asks, one answers. All numbers are little-endian.
 *
 *   request  = struct sl_datagram_request, method, payload, padding
 *   reply    = struct sl_datagram_reply, payload
 *
 * - A reply is never larger than the datagram that asked for it, since a source address proves
 *   nothing. Who expects more pads the request with zeros (to the path MTU, if need be); a reply
 *   that does not fit is SL_DATAGRAM_REPLY_TOO_LARGE without payload. Fragments are not used.
 * - No answer means: lost. Retry with the same id and content (less time till the deadline apart),
 *   from the same address and port, as long as the first. The gateway drops retries of what it is
 *   working on. Replies of up to 1472 bytes it repeats until 10 s after the last time, if they are
 *   among its last 16,000 or so. Ids are the client's: unique among its requests of the last
 *   minute, best random.
 * - What is not a request is dropped without an answer; one of another version is answered with
 *   SL_DATAGRAM_VERSION.
 */
#ifndef SLUICE_DATAGRAM_H
#define SLUICE_DATAGRAM_H

#include <stdint.h>

#define SL_DATAGRAM_MAGIC 0x47444c53u /* "SLDG" */

enum {
	SL_DATAGRAM_VERSION_1 = 1,
	SL_DATAGRAM_HEAD = 24, /* bytes of either head */
	SL_DATAGRAM_MAX = 65507,
};

enum sl_datagram_type { SL_DATAGRAM_REQUEST = 1, SL_DATAGRAM_REPLY = 2 };

enum sl_datagram_status {
	SL_DATAGRAM_OK = 0,          /* a backend has answered: see `code` */
	SL_DATAGRAM_VERSION,         /* `version` is the one that is understood */
	SL_DATAGRAM_NO_SERVICE,      /* no route has this number */
	SL_DATAGRAM_TOO_LARGE,       /* the request exceeds what its route permits */
	SL_DATAGRAM_REPLY_TOO_LARGE, /* pad the request, or use another protocol */
	SL_DATAGRAM_OVERLOADED,      /* not carried out; try again, not at once */
	SL_DATAGRAM_EXPIRED,         /* the deadline passed first */
	SL_DATAGRAM_UNAVAILABLE,     /* no backend, or it broke down */
	SL_DATAGRAM_INTERNAL,
};

struct sl_datagram_request {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint16_t service; /* datagram_service of a route, never 0 */
	uint64_t id;
	uint32_t deadline_us; /* time that the answer is worth waiting for; 0: the route's */
	uint16_t method_len;  /* text for the backend (as the path of HTTP requests); may be 0 */
	uint16_t payload_len;
} __attribute__((packed));

struct sl_datagram_reply {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint16_t status;     /* enum sl_datagram_status */
	uint64_t id;         /* of the request */
	uint32_t service_us; /* that the backend took; 0 not known */
	uint16_t code;       /* OK: the backend's HTTP status, 200 if it has set none; else 0 */
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
