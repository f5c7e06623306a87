/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/client/internal.h"
#include "base/clock.h"

enum { PROBE_TIMEOUT_MS = 500 };
#define PROBE_AFTER_NS (200 * SL_NS_PER_MS)
#define PROBE_AGAIN_NS (500 * SL_NS_PER_MS)
/* A refusal is not authenticated. */
#define DEAD_NS (3 * SL_NS_PER_SEC)

/* Lock held. Returns since when a peer that is due for a probe is silent; 0: not due. */
static uint64_t due_silence(const struct client_server *s, uint64_t now_ns)
{
	uint64_t silent_ns = s->number && !s->removed ? sl_rpc_channel_silent_ns(s->channel) : 0;

	if (!silent_ns || now_ns < silent_ns + PROBE_AFTER_NS || now_ns < s->probe_ns)
		return 0;
	return silent_ns;
}

/* Lock held; released while it probes. */
static void probe_server(struct sl_rpc_client *c, struct client_server *s, uint64_t silent_ns)
{
	struct sl_rpc_dial_options opt = sl_cl_dial_options(c, s);
	uint32_t number = s->number;
	enum sl_rpc_probe_result result;
	uint64_t now_ns;

	opt.timeout_ms = PROBE_TIMEOUT_MS;
	s->probed = true;
	pthread_mutex_unlock(&c->lock);
	result = sl_rpc_probe_peer(&opt, number);
	pthread_mutex_lock(&c->lock);
	s->probed = false;
	now_ns = sl_now_ns();
	s->probe_ns = now_ns + PROBE_AGAIN_NS;
	if (result != SL_RPC_PROBE_REMOVED &&
	    !(result == SL_RPC_PROBE_REFUSED && now_ns >= silent_ns + DEAD_NS))
		return;
	s->forgotten = number;
	if (sl_list_empty(&s->dialed))
		sl_list_add_tail(&c->dialed, &s->dialed);
	sl_cl_wake(c);
}

void sl_cl_probe_silent(struct sl_rpc_client *c)
{
	uint64_t now_ns = sl_now_ns(), silent_ns = 0;
	struct client_server *s = NULL;
	struct sl_list *at;

	sl_list_for_each (at, &c->servers) {
		s = sl_container_of(at, struct client_server, node);
		silent_ns = due_silence(s, now_ns);
		if (silent_ns)
			break;
	}
	if (silent_ns)
		probe_server(c, s, silent_ns);
}
