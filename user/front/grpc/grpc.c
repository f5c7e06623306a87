/* SPDX-License-Identifier: Apache-2.0 */
#include "front/grpc/grpc.h"

bool sl_grpc_content_type(struct sl_span type)
{
	static const struct sl_span grpc = SL_SPAN_LIT("application/grpc");

	if (!sl_span_eq_nocase(sl_span_first(type, grpc.len), grpc))
		return false;
	return type.len == grpc.len || type.ptr[grpc.len] == '+' || type.ptr[grpc.len] == ';';
}

enum sl_grpc_status sl_grpc_from_http(unsigned http)
{
	switch (http) {
	case 200: return SL_GRPC_OK;
	case 400: return SL_GRPC_INTERNAL;
	case 401: return SL_GRPC_UNAUTHENTICATED;
	case 403: return SL_GRPC_PERMISSION_DENIED;
	case 404: return SL_GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504: return SL_GRPC_UNAVAILABLE;
	default: return SL_GRPC_UNKNOWN;
	}
}

bool sl_grpc_timeout(struct sl_span text, uint64_t *ns)
{
	uint64_t n = 0, unit;

	if (text.len < 2 || text.len > 9)
		return false;
	for (size_t i = 0; i + 1 < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	switch (text.ptr[text.len - 1]) {
	case 'H': unit = 3600ull * 1000000000; break;
	case 'M': unit = 60ull * 1000000000; break;
	case 'S': unit = 1000000000; break;
	case 'm': unit = 1000000; break;
	case 'u': unit = 1000; break;
	case 'n': unit = 1; break;
	default: return false;
	}
	/* 8 digits of hours exceed 64 bits of nanoseconds: no limit. */
	*ns = n > UINT64_MAX / 2 / unit ? UINT64_MAX / 2 : n * unit;
	if (!*ns)
		*ns = 1; /* 0 means no timeout */
	return true;
}

enum sl_grpc_event sl_grpc_read(struct sl_grpc_reader *r, struct sl_span *in, struct sl_span *data)
{
	size_t n;

	if (r->in_message) {
		if (!r->left) {
			r->in_message = false;
			r->have = 0;
			return SL_GRPC_FINISH;
		}
		if (!in->len)
			return SL_GRPC_NEED;
		n = in->len < r->left ? in->len : (size_t)r->left;
		*data = sl_span_first(*in, n);
		*in = sl_span_skip(*in, n);
		r->left -= n;
		return SL_GRPC_DATA;
	}
	n = (size_t)SL_GRPC_PREFIX - r->have;
	if (n > in->len)
		n = in->len;
	if (n)
		memcpy(r->prefix + r->have, in->ptr, n);
	r->have = (uint8_t)(r->have + n);
	*in = sl_span_skip(*in, n);
	if (r->have < SL_GRPC_PREFIX)
		return SL_GRPC_NEED;
	r->left = sl_get_be32(r->prefix + 1);
	r->in_message = true;
	r->messages++;
	return SL_GRPC_BEGIN;
}

size_t sl_grpc_prefix(uint8_t *to, uint64_t message_len, bool compressed)
{
	sl_grpc_put_prefix(to, (uint32_t)message_len);
	to[0] = compressed ? SL_GRPC_COMPRESSED : 0;
	return SL_GRPC_PREFIX;
}

size_t sl_grpc_percent_encode(char *buf, size_t cap, struct sl_span text)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.ptr[i];

		if (c >= ' ' && c <= '~' && c != '%') {
			if (n + 1 > cap)
				break;
			buf[n++] = (char)c;
			continue;
		}
		if (n + 3 > cap)
			break;
		buf[n++] = '%';
		buf[n++] = hex[c >> 4];
		buf[n++] = hex[c & 15];
	}
	return n;
}

static int base64_digit(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t sl_base64_decode(uint8_t *to, struct sl_span text)
{
	uint32_t acc = 0;
	unsigned bits = 0;
	size_t n = 0, len = text.len;

	if (len % 4 == 0 && len && text.ptr[len - 1] == '=')
		len -= text.ptr[len - 2] == '=' ? 2 : 1;
	if (len % 4 == 1)
		return SIZE_MAX;
	for (size_t i = 0; i < len; i++) {
		int d = base64_digit(text.ptr[i]);

		if (d < 0)
			return SIZE_MAX;
		acc = acc << 6 | (uint32_t)d;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			to[n++] = (uint8_t)(acc >> bits);
		}
	}
	return n;
}

size_t sl_base64_encode(char *to, struct sl_span bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t acc = 0;
	unsigned bits = 0;
	size_t n = 0;

	for (size_t i = 0; i < bytes.len; i++) {
		acc = acc << 8 | bytes.ptr[i];
		bits += 8;
		while (bits >= 6) {
			bits -= 6;
			to[n++] = digits[acc >> bits & 63];
		}
	}
	if (bits)
		to[n++] = digits[acc << (6 - bits) & 63];
	return n;
}

bool sl_grpc_is_binary(struct sl_span name)
{
	return name.len >= 4 && memcmp(name.ptr + name.len - 4, "-bin", 4) == 0;
}

bool sl_grpc_is_reserved(struct sl_span name)
{
	static const struct sl_span own[] = {
		SL_SPAN_LIT("te"),
		SL_SPAN_LIT("content-type"),
		SL_SPAN_LIT("content-length"),
	};

	if (name.len && name.ptr[0] == ':')
		return true;
	if (sl_span_eq(name, sl_span_str("grpc-encoding")) ||
	    sl_span_eq(name, sl_span_str("grpc-accept-encoding")))
		return false;
	/* Tracing and status details are grpc-...-bin metadata. */
	if (sl_span_starts(name, sl_span_str("grpc-")) && !sl_grpc_is_binary(name))
		return true;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (sl_span_eq(name, own[i]))
			return true;
	}
	return false;
}
