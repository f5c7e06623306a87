/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies replies as failures of the server. */
#ifndef SL_FRONT_FAULT_H
#define SL_FRONT_FAULT_H

#include <stdbool.h>

#include "base/bytes.h"

/* Values of enum sl_eject: a pool counts the faults up to its own. */
enum sl_fault {
	SL_FAULT_NONE,
	SL_FAULT_LOST,    /* reset, or no reply in time */
	SL_FAULT_GATEWAY, /* 502, 503, 504; UNAVAILABLE */
	SL_FAULT_SERVER,  /* other 5xx; UNKNOWN, INTERNAL, DATA_LOSS */
};

/* Returns the fault that a status shows. */
enum sl_fault sl_fault_of_http(unsigned status);
/* Same for gRPC. DEADLINE_EXCEEDED, CANCELLED and others are NONE: they depend on the client. */
enum sl_fault sl_fault_of_grpc(unsigned status);
/*
 * Reads *status from a metadata block: the head's or, if prefixed, the trailers'; default 200 or
 * OK. Only the first fields count: the SDK writes it first. Returns its fault.
 */
enum sl_fault sl_fault_of_reply(struct sl_span block, bool prefixed, unsigned *status);

#endif
