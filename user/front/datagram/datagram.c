/* SPDX-License-Identifier: Apache-2.0 */
#include "front/datagram/datagram.h"
#include <stddef.h>

#define AT(type, field) offsetof(struct sl_datagram_##type, field)

enum sl_datagram_verdict sl_datagram_parse(struct sl_span in, struct sl_datagram *out)
{
	const uint8_t *p = in.ptr;
	size_t method, payload;

	if (in.len < SL_DATAGRAM_HEAD || in.len > SL_DATAGRAM_MAX)
		return SL_DATAGRAM_IS_MALFORMED;
	if (sl_get_le32(p + AT(request, magic)) != SL_DATAGRAM_MAGIC ||
	    p[AT(request, type)] != SL_DATAGRAM_REQUEST)
		return SL_DATAGRAM_IS_MALFORMED;
	out->id = sl_get_le64(p + AT(request, id));
	out->reply_max = (uint16_t)in.len;
	if (p[AT(request, version)] != SL_DATAGRAM_VERSION_1)
		return SL_DATAGRAM_IS_OTHER_VERSION;
	out->service = sl_get_le16(p + AT(request, service));
	out->deadline_us = sl_get_le32(p + AT(request, deadline_us));
	method = sl_get_le16(p + AT(request, method_len));
	payload = sl_get_le16(p + AT(request, payload_len));
	if (!out->service || method + payload > in.len - SL_DATAGRAM_HEAD)
		return SL_DATAGRAM_IS_MALFORMED;
	out->method = sl_span_of(p + SL_DATAGRAM_HEAD, method);
	out->payload = sl_span_of(p + SL_DATAGRAM_HEAD + method, payload);
	return SL_DATAGRAM_IS_REQUEST;
}

void sl_datagram_format(const struct sl_datagram *rq, enum sl_datagram_status *status,
			uint16_t code, uint32_t service_us, size_t path_max,
			struct sl_span *payload, uint8_t head[SL_DATAGRAM_HEAD])
{
	size_t max = rq->reply_max < path_max ? rq->reply_max : path_max;

	if (payload->len && (max < SL_DATAGRAM_HEAD || payload->len > max - SL_DATAGRAM_HEAD)) {
		*status = SL_DATAGRAM_REPLY_TOO_LARGE;
		*payload = sl_span_of(NULL, 0);
	}
	sl_put_le32(head + AT(reply, magic), SL_DATAGRAM_MAGIC);
	head[AT(reply, version)] = SL_DATAGRAM_VERSION_1;
	head[AT(reply, type)] = SL_DATAGRAM_REPLY;
	sl_put_le16(head + AT(reply, status), (uint16_t)*status);
	sl_put_le64(head + AT(reply, id), rq->id);
	sl_put_le32(head + AT(reply, service_us), service_us);
	sl_put_le16(head + AT(reply, code), *status == SL_DATAGRAM_OK ? code : 0);
	sl_put_le16(head + AT(reply, payload_len), (uint16_t)payload->len);
}
