/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include "base/check.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/transport.h"

static const struct sl_transport_scheme *const schemes[] = {
	&sl_shm_scheme,
	&sl_rc_scheme,
	&sl_ud_scheme,
	&sl_sock_scheme,
};

static const struct sl_transport_scheme *scheme_of(const char *endpoint, const char **address)
{
	for (unsigned i = 0; i < SL_ARRAY_LEN(schemes); i++) {
		size_t len = strlen(schemes[i]->scheme);

		if (strncmp(endpoint, schemes[i]->scheme, len) == 0 &&
		    strncmp(endpoint + len, "://", 3) == 0) {
			*address = endpoint + len + 3;
			return schemes[i];
		}
	}
	return NULL;
}

static void set_unknown_text(const char *endpoint, struct sl_err *err)
{
	sl_err_set(err,
		   "%s: expected shm:///path, rdma://address:port, rdma+ud://address:port or "
		   "tcp://host:port",
		   endpoint);
}

struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, struct sl_err *err)
{
	struct sl_rpc_dial_options o = *opt;
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(opt->endpoint, &address);

	if (!o.bulk_ring_len && s)
		o.bulk_ring_len = s->bulk_ring_len;
	if (s)
		return s->dial(&o, address, err);
	set_unknown_text(opt->endpoint, err);
	return NULL;
}

enum sl_rpc_probe_result sl_rpc_probe_peer(const struct sl_rpc_dial_options *opt, uint32_t number)
{
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(opt->endpoint, &address);

	return s && s->probe_peer ? s->probe_peer(opt, address, number) : SL_RPC_PROBE_NONE;
}

void sl_rpc_dial_drop(struct sl_transport *t)
{
	if (t)
		t->ops->close(t);
}

uint64_t sl_rpc_link_number(void)
{
	uint64_t number;

	return sl_rand_bytes(&number, sizeof(number)) ? 0 : number;
}

uint32_t sl_rpc_transport_number(const struct sl_transport *t)
{
	return t->number;
}

uint64_t sl_rpc_transport_peer(const struct sl_transport *t)
{
	return t->peer_epoch;
}

const char *sl_rpc_transport_info(const struct sl_transport *t)
{
	return t->info;
}

struct sl_rpc_listener *sl_rpc_listen(const char *endpoint, const struct sl_rpc_listen_options *opt,
				      struct sl_err *err)
{
	struct sl_rpc_listen_options o = *opt;
	const struct sl_transport_scheme *s = scheme_of(endpoint, &o.address);

	if (s)
		return s->listen(&o, err);
	set_unknown_text(endpoint, err);
	return NULL;
}

int sl_rpc_route_info(const char *endpoint, const struct sl_rpc_rdma *rdma, char *text, size_t len)
{
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(endpoint, &address);

	if (!s)
		return -EINVAL;
	if (s->route_info)
		return s->route_info(address, rdma, text, len);
	snprintf(text, len, "%s, on this host", s->scheme);
	return 0;
}

bool sl_rpc_has_name(const char *endpoint)
{
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(endpoint, &address);

	return s && s->has_name && s->has_name(address);
}

void sl_rpc_preload(void)
{
	for (unsigned i = 0; i < SL_ARRAY_LEN(schemes); i++) {
		if (schemes[i]->preload)
			schemes[i]->preload();
	}
}

void sl_rpc_wait_closed(void)
{
	for (unsigned i = 0; i < SL_ARRAY_LEN(schemes); i++) {
		if (schemes[i]->wait_closed)
			schemes[i]->wait_closed();
	}
}

static uint64_t boot_epoch;

static void draw_boot_epoch(void)
{
	if (sl_rand_bytes(&boot_epoch, sizeof(boot_epoch)))
		boot_epoch = 1;
}

static void begin_boot_epochs(void)
{
	draw_boot_epoch();
	(void)pthread_atfork(NULL, NULL, draw_boot_epoch);
}

uint64_t sl_rpc_boot_epoch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_boot_epochs);
	return boot_epoch;
}
