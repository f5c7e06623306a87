/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the record of a request, within what the worker guarantees. */
#ifndef SL_FUZZ_EVENT_BED_H
#define SL_FUZZ_EVENT_BED_H

#include <stdlib.h>
#include <string.h>
#include "core/event.h"

static inline void must(bool ok)
{
	if (!ok)
		abort();
}

static inline void end_name(char *name, size_t size)
{
	name[size - 1] = 0;
}

/* Enumerations and numbers are in range, names end, lengths fit. */
static inline struct sl_event event_of(const uint8_t *data, size_t size)
{
	struct sl_event e = {0};
	size_t used = 0;

	memcpy(&e, data, size < sizeof(e) ? size : sizeof(e));
	e.begun = size && data[0] & 1; /* a bool of other bytes is undefined */
	e.resumed = size && data[0] & 2;
	e.upgrade_ignored = size && data[0] & 4;
	e.cipher = size && data[0] & 8 ? "TLS_AES_128_GCM_SHA256" : NULL;
	e.end_ns >>= 4; /* jansson's integers are signed */
	e.sent_ns >>= 4;
	e.request_len >>= 4;
	e.reply_len >>= 4;
	for (unsigned i = 0; i < SL_EVENT_STAGE_CNT; i++)
		e.stage_ns[i] >>= 4;
	e.outcome %= SL_OUTCOME_CNT;
	e.proto %= SL_PROTO_CNT;
	e.method %= SL_METHOD_CNT;
	e.front_error %= SL_FRONT_ERR_CNT + 1;
	e.path_len %= sizeof(e.path) + 1;
	e.peer.family = e.peer.family % 3 == 0 ? 0 : e.peer.family % 3 == 1 ? 4 : 6;
	end_name(e.listener, sizeof(e.listener));
	end_name(e.pool, sizeof(e.pool));
	end_name(e.backend, sizeof(e.backend));
	end_name(e.route, sizeof(e.route));
	for (unsigned i = 0; i < SL_EVENT_TEXT_CNT; i++) {
		if (used + e.text_len[i] > sizeof(e.texts))
			e.text_len[i] = 0;
		used += e.text_len[i];
	}
	return e;
}

#endif
