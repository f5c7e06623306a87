/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/rand.h"
#include "front/tls/conn.h"

enum { NO_ALERT = 255, FATAL = 2, WARNING = 1, SHED_MS = 1000 /* about the delay of a lost SYN */ };

static const uint8_t alerts[SL_TLS_END_CNT] = {
#define X(name, alert, metric, help) [SL_TLS_END_##name] = (alert),
	SL_TLS_ENDS(X)
#undef X
};

uint8_t sl_tls_alert_of(enum sl_tls_end why)
{
	return alerts[why];
}

enum sl_tls_end sl_tls_end_of(uint8_t alert)
{
	unsigned i = SL_TLS_END_VERSION;

	if (alert >= 43 && alert <= 46 && alert != 45)
		return SL_TLS_END_BAD_CERTIFICATE;
	while (i < SL_TLS_END_OTHER && alerts[i] != alert)
		i++;
	return (enum sl_tls_end)i;
}

static void free_conn(struct sl_tls_conn *c)
{
	struct sl_tls *t = c->tls;

	if (t->writer == c)
		t->writer = NULL;
	sl_tls_backlog_free(c);
	sl_list_del(&c->holders);
	if (c->server) {
		sl_tls_hs_leave(c);
		sl_tls_server_put(c->server);
	} else {
		sl_tls_cert_put(c->cert);
	}
	sl_tls_dir_wipe(t->ciphers, &c->rx);
	sl_tls_dir_wipe(t->ciphers, &c->tx);
	if (c->identity) {
		OPENSSL_cleanse(c->identity, sizeof(*c->identity));
		sl_mempool_put(&t->identity, c->identity);
	}
	sl_mempool_put(&t->conns, c);
}

/* Only marks it during an upcall. */
static void let_go(struct sl_tls_conn *c)
{
	c->state = SL_TLS_CLOSED;
	c->gone = true;
	if (!c->depth)
		free_conn(c);
}

bool sl_tls_leave(struct sl_tls_conn *c)
{
	if (--c->depth || !c->gone)
		return !c->gone;
	free_conn(c);
	return false;
}

void sl_tls_end(struct sl_tls_conn *c, enum sl_tls_end why)
{
	c->tls->stats.ends[why]++;
	sl_tls_enter(c);
	sl_tls_seal_open(c->tls);
	c->filter.below.ops->close(c->filter.below.self);
	if (c->server)
		sl_tls_hs_leave(c);
	sl_tls_backlog_free(c);
	c->state = SL_TLS_CLOSED;
	if (!c->gone)
		c->filter.up->eof(c->filter.user);
	sl_tls_leave(c);
}

void sl_tls_fail(struct sl_tls_conn *c, enum sl_tls_end why)
{
	uint8_t plain[] = {SL_TLS_ALERT, 3, 3, 0, 2, FATAL, alerts[why]};

	if (alerts[why] != NO_ALERT && c->state == SL_TLS_OPEN)
		sl_tls_say(c, SL_TLS_ALERT, plain + SL_TLS_HEAD, 2);
	else if (alerts[why] != NO_ALERT)
		c->filter.below.ops->write_head(c->filter.below.self, plain, sizeof(plain));
	sl_tls_end(c, why);
}

static void reset_conn(struct sl_tls_conn *c)
{
	const struct sl_conn_user *up = c->filter.up;
	void *user = c->filter.user;

	c->filter.below.ops->reset(c->filter.below.self);
	up->closed(user);
	let_go(c);
}

void sl_tls_break(struct sl_tls_conn *c, enum sl_tls_end why)
{
	c->tls->stats.ends[why]++;
	reset_conn(c);
}

void sl_tls_shed(struct sl_tls_conn *c)
{
	struct sl_tls *t = c->tls;

	t->stats.ends[SL_TLS_END_SHED]++;
	sl_tls_hs_leave(c);
	sl_tls_backlog_free(c);
	c->state = SL_TLS_SHED;
	c->shed_ns = *t->cfg.now_ns;
	sl_list_add_tail(&t->shed, &c->holders);
}

uint64_t sl_tls_next_ns(void *arg)
{
	const struct sl_tls *t = arg;
	const struct sl_tls_conn *c = sl_list_first(&t->shed, struct sl_tls_conn, holders);

	return c ? c->shed_ns + SHED_MS * SL_NS_PER_MS : UINT64_MAX;
}

static size_t below_input(void *user, struct sl_chunk *chunk)
{
	struct sl_tls_conn *c = user;
	size_t len = chunk->len;

	if (c->state >= SL_TLS_SHED || c->eof)
		return len;
	if (c->state == SL_TLS_OPEN) {
		sl_tls_enter(c);
		len = sl_tls_take(c, chunk);
		sl_tls_leave(c);
		return len;
	}
	if (c->state == SL_TLS_AWAY && c->backlog.len >= SL_TLS_HS_BYTES)
		return 0;
	sl_tls_enter(c);
	if (!sl_tls_backlog_add(c, chunk, 0))
		sl_tls_break(c, SL_TLS_END_NO_MEMORY);
	else if (c->state == SL_TLS_HELLO)
		sl_tls_hello(c);
	sl_tls_leave(c);
	return len;
}

/* Unprocessed input may contain close_notify. */
static bool is_waiting(const struct sl_tls_conn *c)
{
	if (c->state == SL_TLS_AWAY)
		return c->backlog.len > c->hs->in_len;
	return c->state == SL_TLS_OPEN && c->paused;
}

/* RFC 8446 6.1: without close_notify the data may be truncated. */
static void below_eof(void *user)
{
	struct sl_tls_conn *c = user;

	c->fin = true;
	if (is_waiting(c))
		return;
	if (c->state == SL_TLS_OPEN && !c->eof)
		sl_tls_break(c, SL_TLS_END_TRUNCATED);
	else if (c->state == SL_TLS_SHED)
		reset_conn(c);
	else if (c->state == SL_TLS_HELLO || c->state == SL_TLS_AWAY)
		sl_tls_end(c, SL_TLS_END_GONE);
}

void sl_tls_go_on(struct sl_tls_conn *c)
{
	if (c->fin && !is_waiting(c))
		below_eof(c);
	else if (c->state == SL_TLS_HELLO || (c->state == SL_TLS_OPEN && !c->paused))
		c->filter.below.ops->resume(c->filter.below.self);
}

static void below_writable(void *user)
{
	struct sl_tls_conn *c = user;

	if (c->state == SL_TLS_OPEN)
		c->filter.up->writable(c->filter.user);
	else if (c->state == SL_TLS_AWAY && c->hs && !c->hs->away)
		sl_tls_hs_send(c);
}

static void below_closed(void *user)
{
	struct sl_tls_conn *c = user;

	if (c->state == SL_TLS_HELLO || c->state == SL_TLS_AWAY)
		c->tls->stats.ends[SL_TLS_END_GONE]++;
	c->filter.up->closed(c->filter.user);
	let_go(c);
}

static void below_named(void *user)
{
	struct sl_tls_conn *c = user;

	c->filter.up->named(c->filter.user);
}

static void below_opened(void *user)
{
	(void)user;
}

static const struct sl_conn_user below_tells = {
	.named = below_named,
	.opened = below_opened,
	.input = below_input,
	.eof = below_eof,
	.writable = below_writable,
	.closed = below_closed,
};

static size_t up_write(void *self, const void *bytes, size_t len)
{
	return sl_tls_write(self, bytes, len, false);
}

static bool up_write_head(void *self, const void *bytes, size_t len)
{
	struct sl_tls_conn *c = self;

	if (!sl_tls_fits(c, len))
		return c->state == SL_TLS_CLOSED;
	if (sl_tls_write(c, bytes, len, true) == len)
		return true;
	/* A part is written, which cannot be reported. */
	c->state = SL_TLS_CLOSED;
	c->filter.below.ops->close(c->filter.below.self);
	return true;
}

static size_t up_room(const void *self)
{
	return sl_tls_room(self);
}

static void up_want_room(void *self)
{
	struct sl_tls_conn *c = self;

	c->filter.below.ops->want_room(c->filter.below.self);
}

static void up_resume(void *self)
{
	struct sl_tls_conn *c = self;

	if (c->state != SL_TLS_OPEN)
		return;
	if (c->depth) {
		c->again = true;
		return;
	}
	c->paused = false;
	sl_tls_enter(c);
	if (c->backlog.len)
		sl_tls_pump(c);
	if (sl_tls_leave(c))
		sl_tls_go_on(c);
}

static void up_close(void *self)
{
	static const uint8_t close_notify[] = {WARNING, 0};
	struct sl_tls_conn *c = self;

	if (c->state == SL_TLS_CLOSED)
		return;
	if (c->state == SL_TLS_OPEN)
		sl_tls_say(c, SL_TLS_ALERT, close_notify, sizeof(close_notify));
	else if (c->state == SL_TLS_SHED)
		sl_list_del(&c->holders);
	else
		c->tls->stats.ends[SL_TLS_END_GONE]++;
	sl_tls_enter(c);
	if (c->server)
		sl_tls_hs_leave(c);
	c->state = SL_TLS_CLOSED;
	c->filter.below.ops->close(c->filter.below.self);
	sl_tls_leave(c);
}

static void up_reset(void *self)
{
	struct sl_tls_conn *c = self;

	c->filter.below.ops->reset(c->filter.below.self);
	let_go(c);
}

static void up_info(const void *self, struct sl_conn_info *out)
{
	const struct sl_tls_conn *c = self;
	const struct sl_tls_identity *w = c->identity;

	c->filter.below.ops->info(c->filter.below.self, out);
	if (c->server)
		return;
	out->tls = (struct sl_conn_tls){
		.cipher = sl_tls_suite_name((enum sl_tls_suite)c->rx.suite),
		.sni = sl_span_of(w ? w->sni : c->sni, c->sni_len),
		.cert = c->cert,
		.resumed = c->resumed,
		.alpn = c->alpn,
	};
	if (w) {
		out->tls.subject = sl_span_of(w->subject, w->subject_len);
		out->tls.san = sl_span_of(w->san, w->san_len);
	}
}

static const struct sl_conn_ops offers = {
	.write = up_write,
	.write_head = up_write_head,
	.room = up_room,
	.want_room = up_want_room,
	.resume = up_resume,
	.close = up_close,
	.reset = up_reset,
	.info = up_info,
};

bool sl_tls_open_conn(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		      struct sl_filter **top)
{
	struct sl_tls *t = arg;
	struct sl_tls_server *s =
		info->listener < SL_MAX_LISTENERS ? t->servers[info->listener] : NULL;
	struct sl_tls_conn *c;

	if (!s)
		return true;
	c = sl_mempool_get(&t->conns);
	if (!c)
		return false;
	memset(c, 0, sizeof(*c));
	c->filter = (struct sl_filter){
		.below_tells = &below_tells, .offers = &offers, .below = transport, .talks = true};
	c->tls = t;
	c->server = sl_tls_server_get(s);
	c->update_credit = SL_TLS_UPDATE_MAX;
	sl_list_init(&c->holders);
	*top = &c->filter;
	return true;
}

unsigned sl_tls_poll(void *arg)
{
	struct sl_tls *t = arg;
	unsigned n = 0;

	for (; sl_tls_next_ns(t) <= *t->cfg.now_ns; n++)
		reset_conn(
			sl_container_of(sl_list_pop_head(&t->shed), struct sl_tls_conn, holders));
	if (t->cfg.collect && sl_mempool_used(&t->hs))
		n += t->cfg.collect(t->cfg.arg, t);
	return n;
}

void sl_tls_flush(void *arg)
{
	sl_tls_seal_open(arg);
}

void sl_tls_set_listeners(struct sl_tls *t, const struct sl_config *cfg)
{
	for (uint32_t i = 0; i < SL_MAX_LISTENERS; i++) {
		struct sl_tls_server *old = t->servers[i];
		struct sl_tls_server *s =
			cfg && i < cfg->listener_cnt ? cfg->listeners[i].tls_server : NULL;

		t->servers[i] = s ? sl_tls_server_get(s) : NULL;
		sl_tls_server_put(old);
	}
}

static int make_pool(struct sl_mempool *p, size_t size, uint32_t cnt)
{
	int rc = sl_mempool_init(p, size, SL_CACHELINE, cnt);

	if (!rc)
		madvise(p->base, p->map_len, MADV_DONTDUMP); /* keys and client identities */
	return rc;
}

struct sl_tls *sl_tls_create(const struct sl_tls_config *cfg)
{
	struct sl_tls *t = calloc(1, sizeof(*t));
	uint8_t key[16] = {0};
	int rc = t ? 0 : -ENOMEM;

	if (t) {
		t->cfg = *cfg;
		for (unsigned i = 0; i < SL_TLS_BUCKETS; i++)
			sl_list_init(&t->holders[i].conns);
		sl_list_init(&t->shed);
		sl_list_init(&t->waiting);
		t->ciphers = sl_tls_ciphers_new();
		rc = t->ciphers ? sl_rand_bytes(key, sizeof(key)) : -ENOMEM;
		t->key = sl_sipkey_from(key);
	}
	if (!rc)
		rc = make_pool(&t->conns, sizeof(struct sl_tls_conn), cfg->max_conns);
	if (!rc)
		rc = make_pool(&t->identity, sizeof(struct sl_tls_identity), cfg->max_conns);
	if (!rc)
		rc = make_pool(&t->hs, sizeof(struct sl_tls_hs), SL_TLS_HANDSHAKES);
	if (!rc)
		return t;
	sl_tls_destroy(t);
	errno = -rc;
	return NULL;
}

void sl_tls_destroy(struct sl_tls *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; t->hs.base && i < t->hs.fresh; i++) {
		if (sl_mempool_in_use(&t->hs, i))
			sl_tls_hs_end(sl_mempool_at(&t->hs, i));
	}
	sl_tls_set_listeners(t, NULL);
	sl_mempool_fini(&t->conns);
	sl_mempool_fini(&t->identity);
	sl_mempool_fini(&t->hs);
	sl_tls_ciphers_free(t->ciphers);
	free(t);
}

uint32_t sl_tls_queued(const struct sl_tls *t)
{
	return t->queued;
}

void sl_tls_stats(const struct sl_tls *t, struct sl_tls_stats *out)
{
	*out = t->stats;
	out->queued = t->queued;
	out->conn_bytes = sizeof(struct sl_tls_conn);
}
