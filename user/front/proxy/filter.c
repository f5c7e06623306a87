/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "front/proxy/proxy.h"

enum { HEADS = 1024 };

struct sl_proxy {
	struct sl_filter filter;
	struct sl_proxy_env *env;
	uint8_t *head;
	uint16_t head_len;
	bool complete;
	bool told;
	struct sl_addr source;
};

int sl_proxy_env_init(struct sl_proxy_env *env, uint32_t conns, uint64_t *headers,
		      uint64_t *malformed)
{
	int err;

	*env = (struct sl_proxy_env){.headers = headers, .malformed = malformed};
	err = sl_mempool_init(&env->filters, sizeof(struct sl_proxy), 0, conns);
	if (!err)
		err = sl_mempool_init(&env->heads, SL_PROXY_HEADER_MAX, 0,
				      conns < HEADS ? conns : HEADS);
	if (err)
		sl_proxy_env_fini(env);
	return err;
}

void sl_proxy_env_fini(struct sl_proxy_env *env)
{
	sl_mempool_fini(&env->filters);
	sl_mempool_fini(&env->heads);
}

static void drop_head(struct sl_proxy *p)
{
	if (p->head)
		sl_mempool_put(&p->env->heads, p->head);
	p->head = NULL;
}

static void proxy_free(struct sl_proxy *p)
{
	drop_head(p);
	sl_mempool_put(&p->env->filters, p);
}

static void filter_closed(void *user)
{
	struct sl_proxy *p = user;

	p->filter.up->closed(p->filter.user);
	proxy_free(p);
}

static void refuse_conn(struct sl_proxy *p)
{
	++*p->env->malformed;
	p->filter.below.ops->reset(p->filter.below.self);
	filter_closed(p);
}

static bool gather_header(struct sl_proxy *p, struct sl_span *bytes)
{
	size_t n = SL_PROXY_HEADER_MAX - p->head_len;

	if (!p->head)
		p->head = sl_mempool_get(&p->env->heads);
	if (!p->head)
		return false;
	if (n > bytes->len)
		n = bytes->len;
	memcpy(p->head + p->head_len, bytes->ptr, n);
	p->head_len = (uint16_t)(p->head_len + n);
	*bytes = sl_span_of(p->head, p->head_len);
	return true;
}

static size_t take_header(struct sl_proxy *p, const struct sl_chunk *chunk)
{
	struct sl_span bytes = sl_span_of(chunk->ptr, chunk->len);
	size_t before = p->head_len;
	struct sl_proxy_header header;
	int len = -1;

	if (!p->head)
		len = sl_proxy_parse(bytes, &header);
	if ((p->head || len == 0) && gather_header(p, &bytes))
		len = sl_proxy_parse(bytes, &header);
	if (len < 0 || (len == 0 && (!p->head || p->head_len == SL_PROXY_HEADER_MAX))) {
		refuse_conn(p);
		return SIZE_MAX;
	}
	if (len == 0)
		return chunk->len;
	drop_head(p);
	++*p->env->headers;
	p->complete = true;
	p->told = header.told;
	p->source = header.source;
	return (size_t)len - before;
}

static size_t filter_input(void *user, struct sl_chunk *chunk)
{
	struct sl_proxy *p = user;
	struct sl_chunk rest = *chunk;
	size_t used;

	if (p->complete)
		return p->filter.up->input(p->filter.user, chunk);
	used = take_header(p, chunk);
	if (used == SIZE_MAX)
		return chunk->len;
	if (p->complete) {
		p->filter.up->named(p->filter.user);
		p->filter.up->opened(p->filter.user);
	}
	if (used == chunk->len)
		return used;
	/* The frame contains the header, so it is not passed on. */
	rest.ptr = (const uint8_t *)chunk->ptr + used;
	rest.len -= used;
	rest.frame = NULL;
	return used + p->filter.up->input(p->filter.user, &rest);
}

static void filter_eof(void *user)
{
	struct sl_proxy *p = user;

	if (p->complete)
		p->filter.up->eof(p->filter.user);
	else
		refuse_conn(p);
}

static void filter_writable(void *user)
{
	struct sl_proxy *p = user;

	p->filter.up->writable(p->filter.user);
}

static const struct sl_conn_user below_tells = {.input = filter_input,
						.eof = filter_eof,
						.writable = filter_writable,
						.closed = filter_closed};

static size_t out_write(void *self, const void *bytes, size_t len)
{
	struct sl_proxy *p = self;

	return p->filter.below.ops->write(p->filter.below.self, bytes, len);
}

static bool out_write_head(void *self, const void *bytes, size_t len)
{
	struct sl_proxy *p = self;

	return p->filter.below.ops->write_head(p->filter.below.self, bytes, len);
}

static size_t out_room(const void *self)
{
	const struct sl_proxy *p = self;

	return p->filter.below.ops->room(p->filter.below.self);
}

static void out_want_room(void *self)
{
	struct sl_proxy *p = self;

	p->filter.below.ops->want_room(p->filter.below.self);
}

static void out_resume(void *self)
{
	struct sl_proxy *p = self;

	p->filter.below.ops->resume(p->filter.below.self);
}

static void out_close(void *self)
{
	struct sl_proxy *p = self;

	p->filter.below.ops->close(p->filter.below.self);
}

static void out_reset(void *self)
{
	struct sl_proxy *p = self;

	p->filter.below.ops->reset(p->filter.below.self);
	proxy_free(p);
}

static void out_info(const void *self, struct sl_conn_info *out)
{
	const struct sl_proxy *p = self;

	p->filter.below.ops->info(p->filter.below.self, out);
	if (p->told)
		out->peer = p->source;
}

static uint8_t *out_lay(void *self, size_t min, bool beyond, size_t *room)
{
	struct sl_proxy *p = self;

	return p->filter.below.ops->lay(p->filter.below.self, min, beyond, room);
}

static void out_commit(void *self, size_t len)
{
	struct sl_proxy *p = self;

	p->filter.below.ops->commit(p->filter.below.self, len);
}

static bool out_fits_head(const void *self, size_t len)
{
	const struct sl_proxy *p = self;

	return p->filter.below.ops->fits_head(p->filter.below.self, len);
}

static const struct sl_conn_ops offers = {
	.write = out_write,
	.write_head = out_write_head,
	.room = out_room,
	.want_room = out_want_room,
	.resume = out_resume,
	.close = out_close,
	.reset = out_reset,
	.info = out_info,
	.lay = out_lay,
	.commit = out_commit,
	.fits_head = out_fits_head,
};

struct sl_filter *sl_proxy_open(struct sl_proxy_env *env, struct sl_conn transport)
{
	struct sl_proxy *p = sl_mempool_get(&env->filters);

	if (!p)
		return NULL;
	*p = (struct sl_proxy){
		.filter = {.below_tells = &below_tells,
			   .offers = &offers,
			   .below = transport,
			   .talks = true},
		.env = env,
	};
	return &p->filter;
}

void sl_proxy_drop(struct sl_filter *f)
{
	proxy_free((struct sl_proxy *)f);
}
