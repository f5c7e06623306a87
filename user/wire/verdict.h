/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers return the header's length or one of these. Their output is valid on success only. */
#ifndef SL_WIRE_VERDICT_H
#define SL_WIRE_VERDICT_H

enum sl_wire_verdict {
	SL_WIRE_TRUNCATED = -1, /* shorter than the header */
	SL_WIRE_HEADER = -2,    /* a field has an impossible value */
	SL_WIRE_LENGTH = -3,    /* a length field exceeds the frame */
	SL_WIRE_TYPE = -4,      /* more than two VLAN tags, or wrong version */
	SL_WIRE_EXTENSION = -5, /* too many, misplaced or malformed IPv6 extension headers */
	SL_WIRE_OPTIONS = -6,   /* malformed TCP options */
};

#endif
