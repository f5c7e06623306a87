/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/datagram/wire.h"

#include <errno.h>

#define AT(type, field) offsetof(struct sl_datagram_##type, field)

size_t sl_datagram_encode(const struct sl_datagram_call *call, uint64_t id, uint8_t *to, size_t max)
{
	size_t room = max < SL_DATAGRAM_HEAD ? 0 : max - SL_DATAGRAM_HEAD, len, padding;

	if (call->method_len > room || call->payload_len > room - call->method_len)
		return 0;
	len = SL_DATAGRAM_HEAD + call->method_len + call->payload_len;
	padding = call->reply_len > room ? max : SL_DATAGRAM_HEAD + call->reply_len;
	padding = padding > len ? padding - len : 0;
	sl_put_le32(to + AT(request, magic), SL_DATAGRAM_MAGIC);
	to[AT(request, version)] = SL_DATAGRAM_VERSION_1;
	to[AT(request, type)] = SL_DATAGRAM_REQUEST;
	sl_put_le16(to + AT(request, service), call->service);
	sl_put_le64(to + AT(request, id), id);
	sl_put_le32(to + AT(request, deadline_us), call->deadline_us);
	sl_put_le16(to + AT(request, method_len), (uint16_t)call->method_len);
	sl_put_le16(to + AT(request, payload_len), (uint16_t)call->payload_len);
	if (call->method_len)
		memcpy(to + SL_DATAGRAM_HEAD, call->method, call->method_len);
	if (call->payload_len)
		memcpy(to + SL_DATAGRAM_HEAD + call->method_len, call->payload, call->payload_len);
	memset(to + len, 0, padding);
	return len + padding;
}

void sl_datagram_set_deadline(uint8_t *request, uint32_t deadline_us)
{
	sl_put_le32(request + AT(request, deadline_us), deadline_us);
}

bool sl_datagram_decode(struct sl_span in, struct sl_datagram_answer *out)
{
	const uint8_t *p = in.ptr;

	if (in.len < SL_DATAGRAM_HEAD || sl_get_le32(p + AT(reply, magic)) != SL_DATAGRAM_MAGIC ||
	    p[AT(reply, type)] != SL_DATAGRAM_REPLY)
		return false;
	*out = (struct sl_datagram_answer){
		.id = sl_get_le64(p + AT(reply, id)),
		.status = sl_get_le16(p + AT(reply, status)),
		.service_us = sl_get_le32(p + AT(reply, service_us)),
		.code = sl_get_le16(p + AT(reply, code)),
		.payload = p + SL_DATAGRAM_HEAD,
		.payload_len = sl_get_le16(p + AT(reply, payload_len)),
	};
	/* From a gateway of another version only SL_DATAGRAM_VERSION is accepted. */
	if (p[AT(reply, version)] != SL_DATAGRAM_VERSION_1 && out->status != SL_DATAGRAM_VERSION)
		return false;
	return out->status <= SL_DATAGRAM_INTERNAL &&
	       in.len - SL_DATAGRAM_HEAD == out->payload_len &&
	       (out->status == SL_DATAGRAM_OK || !out->payload_len);
}

const char *sl_datagram_status_name(int status)
{
	static const char *const names[] = {
		[SL_DATAGRAM_OK] = "ok",
		[SL_DATAGRAM_VERSION] = "version not understood",
		[SL_DATAGRAM_NO_SERVICE] = "no such service",
		[SL_DATAGRAM_TOO_LARGE] = "request too large",
		[SL_DATAGRAM_REPLY_TOO_LARGE] = "reply too large",
		[SL_DATAGRAM_OVERLOADED] = "overloaded",
		[SL_DATAGRAM_EXPIRED] = "deadline exceeded",
		[SL_DATAGRAM_UNAVAILABLE] = "unavailable",
		[SL_DATAGRAM_INTERNAL] = "internal error",
	};

	if (status == -ETIMEDOUT)
		return "no reply";
	if (status == -ECANCELED)
		return "cancelled";
	return status >= 0 && status <= SL_DATAGRAM_INTERNAL ? names[status] : "unknown status";
}
