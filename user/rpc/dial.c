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
	&sl_verbs_scheme,
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

static void say_unknown(const char *endpoint, char *err, size_t err_len)
{
	snprintf(err, err_len, "%s: expected shm:///path or rdma://address:port", endpoint);
}

struct sl_transport *sl_rpc_dial(const struct sl_rpc_dial_options *opt, char *err, size_t err_len)
{
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(opt->endpoint, &address);

	if (s)
		return s->dial(opt, address, err, err_len);
	say_unknown(opt->endpoint, err, err_len);
	return NULL;
}

void sl_rpc_dial_drop(struct sl_transport *t)
{
	if (t)
		t->ops->close(t);
}

const char *sl_rpc_transport_info(const struct sl_transport *t)
{
	return t->info;
}

struct sl_rpc_listener *sl_rpc_listen(const char *endpoint, const struct sl_rpc_listen_options *opt,
				      char *err, size_t err_len)
{
	struct sl_rpc_listen_options o = *opt;
	const struct sl_transport_scheme *s = scheme_of(endpoint, &o.address);

	if (s)
		return s->listen(&o, err, err_len);
	say_unknown(endpoint, err, err_len);
	return NULL;
}

int sl_rpc_probe(const char *endpoint, char *text, size_t len)
{
	const char *address;
	const struct sl_transport_scheme *s = scheme_of(endpoint, &address);

	if (!s)
		return -EINVAL;
	if (s->probe)
		return s->probe(address, text, len);
	snprintf(text, len, "%s, on this host", s->scheme);
	return 0;
}

void sl_rpc_settle(void)
{
	for (unsigned i = 0; i < SL_ARRAY_LEN(schemes); i++) {
		if (schemes[i]->settle)
			schemes[i]->settle();
	}
}

static uint64_t boot_epoch;

static void draw_boot_epoch(void)
{
	if (sl_rand_bytes(&boot_epoch, sizeof(boot_epoch)))
		boot_epoch = 1; /* no secret, only a mark */
}

uint64_t sl_rpc_boot_epoch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, draw_boot_epoch);
	return boot_epoch;
}
