/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of the deprecated API: EVP would allocate for each request. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "core/api_key.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>

#include "config/api_keys.h"
#include "core/event.h"
#include "front/trusted_headers.h"

enum { TOKEN_MAX = 1024 };
_Static_assert((int)SL_API_KEY_HASH == (int)SHA256_DIGEST_LENGTH, "keys are kept as SHA-256");

static unsigned find_fields(const struct sl_request *rq, const char *name, struct sl_span *value)
{
	const struct sl_span want = sl_span_cstr(name);
	unsigned n = 0;

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (!sl_span_eq_nocase(rq->headers[i].name, want))
			continue;
		if (!n++)
			*value = rq->headers[i].value;
	}
	return n;
}

static bool read_bearer(struct sl_span *value)
{
	const struct sl_span scheme = sl_span_str("bearer ");

	if (!sl_span_eq_nocase(sl_span_first(*value, scheme.len), scheme))
		return false;
	*value = sl_span_skip(*value, scheme.len);
	while (value->len && value->ptr[0] == ' ')
		*value = sl_span_skip(*value, 1);
	return true;
}

static const struct sl_api_key *find_key(const struct sl_api_keys *keys, struct sl_span token)
{
	const struct sl_api_key *key;
	uint8_t hash[SL_API_KEY_HASH];
	SHA256_CTX state;

	if (!token.len || token.len > TOKEN_MAX)
		return NULL;
	SHA256_Init(&state);
	SHA256_Update(&state, token.ptr, token.len);
	SHA256_Final(hash, &state);
	key = sl_api_keys_find(keys, hash);
	OPENSSL_cleanse(&state, sizeof(state));
	return key;
}

enum sl_outcome sl_api_key_check(struct sl_exchange *x, const struct sl_request *rq)
{
	const struct sl_cfg_keys *k = x->route->keys;
	struct sl_span token = {0};
	const unsigned n = find_fields(rq, k->header, &token);

	x->key_given = n && token.len;
	if (n == 1 && (!k->bearer || read_bearer(&token)))
		x->key = find_key(k->keys, token);
	if (!x->key) {
		x->core->stats.api_keys_missing += !x->key_given;
		x->core->stats.api_keys_unknown += x->key_given;
		return SL_OUTCOME_UNAUTHENTICATED;
	}
	if (x->note)
		sl_event_key(x, x->key->name);
	return SL_OUTCOME_OK;
}

void sl_api_key_put_challenge(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	const struct sl_cfg_keys *k = x->route->keys;
	char *text = x->core->limit_texts[0];

	snprintf(text, SL_QUOTA_FIELD, "%s realm=\"%s\"%s", k->bearer ? "Bearer" : "ApiKey",
		 k->name, k->bearer && x->key_given ? ", error=\"invalid_token\"" : "");
	out->headers[0] = (struct sl_header){sl_span_str("www-authenticate"), sl_span_cstr(text)};
	out->reply.headers = out->headers;
	out->reply.header_cnt = 1;
}

bool sl_api_key_hides(const struct sl_cfg_route *r, struct sl_span name)
{
	return r->keys && !r->keys->forward &&
	       sl_trusted_header_folds_to(name, sl_span_cstr(r->keys->header));
}
