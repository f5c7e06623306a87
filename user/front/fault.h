/* SPDX-License-Identifier: Apache-2.0 */
/* Which replies are failures of the server, by their statuses. */
#ifndef SL_FRONT_FAULT_H
#define SL_FRONT_FAULT_H

#include <stdbool.h>

#include "base/bytes.h"

/* The values are those of enum sl_eject: a pool counts the faults up to its own. */
enum sl_fault {
	SL_FAULT_NONE,
	SL_FAULT_LOST,    /* reset, or no reply in time */
	SL_FAULT_GATEWAY, /* 502, 503, 504; UNAVAILABLE */
	SL_FAULT_SERVER,  /* other 5xx; UNKNOWN, INTERNAL, DATA_LOSS */
};

enum sl_fault sl_fault_of_http(unsigned status);
/* DEADLINE_EXCEEDED, CANCELLED and others depend on the client. */
enum sl_fault sl_fault_of_grpc(unsigned status);
/*
 * Reads the status from a metadata block: the head's, or of a protocol with message prefixes the
 * trailers'. The SDK writes it first; later ones are not looked for.
 */
enum sl_fault sl_fault_of_reply(struct sl_span block, bool prefixed, unsigned *status);

#endif
