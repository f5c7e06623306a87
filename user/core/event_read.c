/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

static size_t text_at(const struct sl_event *e, enum sl_event_text which)
{
	size_t at = 0;

	for (unsigned i = 0; i < which; i++)
		at += e->text_len[i];
	return at;
}

struct sl_span sl_event_text(const struct sl_event *e, enum sl_event_text which)
{
	return sl_span_of(e->texts + text_at(e, which), e->text_len[which]);
}

struct sl_code_end sl_event_code(const struct sl_event *e)
{
	return (struct sl_code_end){.status = e->status,
				    .grpc_status = e->grpc_status,
				    .proto = e->proto,
				    .begun = e->begun,
				    .outcome = (enum sl_outcome)e->outcome};
}

uint64_t sl_event_total_ns(const struct sl_event *e)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SL_EVENT_STAGE_CNT; i++)
		sum += e->stage_ns[i];
	return sum;
}
