/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects virtual connections. A host's wireup QP is asked for once by SIDR and cached. A change of
 * a GID table drops the cache, because an entry names a place in that table.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/fnv.h"
#include "rpc/rpc.h"
#include "rpc/rdma/wireup_qp.h"
#include "rpc/rdma/ud/ud_iface.h"
#include "rpc/rdma/ud/ud_accept.h"
#include "rpc/rdma/auth.h"
#include "rpc/rdma/path.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/info.h"

enum {
	HOSTS_MAX = 1024, /* cached hosts, per path */
	CACHED_TRIES = 3,
};

/* Address and path of a host, without padding. */
struct ud_dest {
	struct sockaddr_storage sa;
	struct rdma_path_spec path;
};
_Static_assert(sizeof(struct ud_dest) ==
		       sizeof(struct sockaddr_storage) + sizeof(struct rdma_path_spec),
	       "it is compared by its bytes");

struct ud_host_entry {
	struct ud_dest dest;
	struct sidr_result host;
	struct sl_list used; /* LRU list */
	struct ud_host_entry *next;
};

struct ud_connect_call {
	const struct sl_rpc_dial_options *opt;
	struct ud_dest dest;
	struct sl_psk psk;
	struct sidr_result host;
	struct sl_ud_creq creq;
	struct sl_ud_crep crep;
	uint32_t mtu; /* the interface's */
	uint64_t deadline_ns;
	const char *why; /* more specific than the errno */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ud_host_entry *hosts[HOSTS_MAX];
static struct sl_list used = {&used, &used};
static unsigned host_cnt;
static unsigned gid_changes;

/* Hashes the address only, which is faster; hosts have few paths. */
static struct ud_host_entry **bucket_of(const struct ud_dest *w)
{
	return &hosts[sl_fnv32(SL_FNV32, &w->sa, sizeof(struct sockaddr_in6)) % HOSTS_MAX];
}

static struct ud_host_entry *find_host(const struct ud_dest *w)
{
	struct ud_host_entry *k = *bucket_of(w);

	while (k && memcmp(&k->dest, w, sizeof(*w)) != 0)
		k = k->next;
	if (k) {
		sl_list_del(&k->used);
		sl_list_add_tail(&used, &k->used);
	}
	return k;
}

static bool lookup_host(struct ud_connect_call *d)
{
	const struct ud_host_entry *k;

	pthread_mutex_lock(&lock);
	k = find_host(&d->dest);
	if (k)
		d->host = k->host;
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

static struct ud_host_entry *alloc_host_entry(void)
{
	struct ud_host_entry *k, **at;

	if (host_cnt < HOSTS_MAX) {
		k = malloc(sizeof(*k));
		host_cnt += k != NULL;
		return k;
	}
	k = sl_list_first(&used, struct ud_host_entry, used);
	at = bucket_of(&k->dest);
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	sl_list_del(&k->used);
	return k;
}

static void drop_hosts(struct ibv_context *device, const struct ibv_async_event *ev)
{
	struct sl_list *at;

	(void)device;
	if (ev->event_type != IBV_EVENT_GID_CHANGE)
		return;
	pthread_mutex_lock(&lock);
	gid_changes++;
	memset(hosts, 0, sizeof(hosts));
	while ((at = sl_list_pop_head(&used)))
		free(sl_container_of(at, struct ud_host_entry, used));
	host_cnt = 0;
	pthread_mutex_unlock(&lock);
}

static unsigned watch_gids(void)
{
	static struct async_event_handler handler = {.event = drop_hosts};
	unsigned changes;

	async_event_subscribe(&handler);
	pthread_mutex_lock(&lock);
	changes = gid_changes;
	pthread_mutex_unlock(&lock);
	return changes;
}

/* Stores nothing if the result may be of an earlier table. */
static void store_host(const struct ud_connect_call *d, unsigned changes)
{
	struct ud_host_entry *k;

	pthread_mutex_lock(&lock);
	k = find_host(&d->dest);
	if (k && gid_changes == changes) {
		k->host = d->host;
	} else if (gid_changes == changes && (k = alloc_host_entry())) {
		struct ud_host_entry **bucket = bucket_of(&d->dest);

		*k = (struct ud_host_entry){.dest = d->dest, .host = d->host, .next = *bucket};
		*bucket = k;
		sl_list_add_tail(&used, &k->used);
	}
	pthread_mutex_unlock(&lock);
}

static int query_sidr(struct ud_connect_call *d)
{
	const struct sidr_query q = {
		.sa = &d->dest.sa, .rdma = &d->opt->rdma, .deadline_ns = d->deadline_ns};
	unsigned changes = watch_gids();
	int rc;

	d->host = (struct sidr_result){.qpn = 0};
	rc = rdma_device->sidr_resolve(&q, &d->host, &d->why);
	if (!rc)
		store_host(d, changes);
	return rc;
}

static _Thread_local struct ud_nonce next_nonce; /* one per dialing thread */

static void draw_next(void *arg)
{
	(void)arg;
	ud_nonce_draw(&next_nonce);
}

static int build_creq(void *arg, const struct ud_qp *qp, uint8_t *to)
{
	static _Atomic uint32_t number;
	struct ud_connect_call *d = arg;
	struct sl_ud_creq *h = &d->creq;

	h->number = atomic_fetch_add(&number, 1);
	h->answer_qpn = qp->qpn;
	h->mtu = d->mtu < qp->mtu ? d->mtu : qp->mtu;
	if (auth_sender_id(&d->dest.sa, h->sender_id) ||
	    ud_nonce_take(&next_nonce, h->nonce, sizeof(h->nonce)))
		return -EIO;
	ud_creq_sign(&d->psk, h, d->host.gid, d->host.qpn);
	memcpy(to, h, sizeof(*h));
	return (int)sizeof(*h);
}

static bool is_crep(void *arg, const struct ud_packet *p)
{
	struct ud_connect_call *d = arg;
	struct sl_ud_crep a;

	if (p->len != sizeof(a))
		return false;
	memcpy(&a, p->bytes, sizeof(a));
	if (a.magic != SL_UD_WIREUP_MAGIC || a.version != SL_UD_VERSION ||
	    a.number != d->creq.number || !ud_crep_verify(&d->psk, &d->creq, &a))
		return false;
	d->crep = a;
	return true;
}

static int exchange_creq(struct ud_connect_call *d, unsigned tries)
{
	struct ah_entry *n = ah_cache_get(&d->host.local, d->host.gid, d->creq.tos);
	int rc;

	if (!n)
		return -ENETUNREACH;
	rc = ud_iface_prepare(&d->host.local, d->opt->worker, &d->mtu);
	if (!rc && d->host.mtu)
		d->mtu = sl_rpc_at_most(d->mtu, d->host.mtu);
	if (!rc && d->mtu < SL_UD_MTU_MIN) {
		d->why = "the path MTU is too small: interfaces on the path need an MTU of 1100";
		rc = -EMSGSIZE;
	}
	if (rc) {
		ah_cache_put(n);
		return rc;
	}
	memcpy(d->creq.gid, d->host.local.gid, sizeof(d->creq.gid));
	rc = wireup_call_run(&(struct wireup_call){.local = &d->host.local,
						   .ah = n->ah,
						   .qpn = d->host.qpn,
						   .tries = tries,
						   .deadline_ns = d->deadline_ns,
						   .build = build_creq,
						   .overlap = draw_next,
						   .is_reply = is_crep,
						   .arg = d});
	ah_cache_put(n);
	if (rc == -ETIMEDOUT)
		d->why = "no answer: give both ends the same key file, or the backend is too busy";
	if (rc == -EBUSY)
		d->why = "too many backends do not answer";
	return rc;
}

/* A cached host may have moved. */
static int resolve_and_exchange(struct ud_connect_call *d)
{
	int rc;

	if (lookup_host(d) && exchange_creq(d, CACHED_TRIES) == 0)
		return 0;
	d->why = NULL;
	rc = query_sidr(d);
	return rc ? rc : exchange_creq(d, 0);
}

static int create_conn(struct ud_connect_call *d, struct ud_conn **c)
{
	const struct sl_ud_crep *a = &d->crep;
	struct ud_conn_params terms = {.id = d->creq.id,
				       .peer_id = a->id,
				       .qpn = a->qpn,
				       .slots = a->slots,
				       .mtu = a->mtu,
				       .peer_epoch = a->epoch,
				       .worker = d->opt->worker,
				       .link = d->opt->link,
				       .resumes = d->opt->resumes};
	struct ah_entry *n;
	struct ud_keys keys;

	if (a->verdict == SL_UD_FULL) {
		d->why = SL_RPC_FULL_TEXT;
		return -EPROTO;
	}
	if (a->verdict != SL_UD_GRANTED || !ud_slots_ok(a->slots) || a->slots > d->creq.slots ||
	    a->mtu < SL_UD_MTU_MIN || a->mtu > d->creq.mtu)
		return -EBADMSG;
	ud_keys_derive(&d->psk, a, true, &keys);
	n = ah_cache_get(&d->host.local, d->host.gid, d->creq.tos);
	*c = n ? ud_conn_new(&terms, &keys, n) : NULL;
	if (n && !*c)
		ah_cache_put(n);
	return *c ? 0 : -ENOMEM;
}

static struct sl_ud_creq creq_of(const struct sl_rpc_dial_options *opt, uint32_t id, uint32_t flags)
{
	return (struct sl_ud_creq){.magic = SL_UD_WIREUP_MAGIC,
				   .version = SL_UD_VERSION,
				   .tos = opt->rdma.tos,
				   .worker = opt->worker,
				   .epoch = sl_rpc_boot_epoch(),
				   .slots = opt->slots,
				   .id = id,
				   .flags = flags,
				   .link = opt->link};
}

static int connect_conn(struct ud_connect_call *d, struct ud_conn **c)
{
	int rc;

	d->creq = creq_of(d->opt, ud_id_get(), d->opt->resumes ? SL_HELLO_RESUME : 0);
	if (!d->creq.id)
		return -EUSERS;
	rc = ud_slots_ok(d->creq.slots) ? resolve_and_exchange(d) : -EINVAL;
	if (!rc)
		rc = create_conn(d, c);
	if (rc)
		ud_id_put(d->creq.id);
	return rc;
}

static struct sl_transport *sl_ud_dial(const struct sl_rpc_dial_options *opt, const char *address,
				       struct sl_err *err)
{
	struct ud_connect_call d = {.opt = opt,
				    .dest.path = rdma_path_spec_of(&opt->rdma),
				    .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	struct ud_conn *c = NULL;
	int rc;

	if (rdma_parse_addr(address, &d.dest.sa)) {
		sl_err_set(err,
			   "rdma+ud://%s: expected a numeric address and port, as in "
			   "rdma+ud://10.0.0.2:7471",
			   address);
		return NULL;
	}
	if (sl_psk_read(&d.psk, opt->key_file, err))
		return NULL;
	rc = connect_conn(&d, &c);
	sl_psk_wipe(&d.psk);
	if (rc) {
		sl_err_set(err, "rdma+ud://%s: %s", address, d.why ? d.why : strerror(-rc));
		return NULL;
	}
	snprintf(c->base.info, sizeof(c->base.info), "ud %s, %u slots, datagrams of %u bytes",
		 d.host.local.name, d.crep.slots, d.crep.mtu);
	return &c->base;
}

/* Asks by SIDR first: the cached QP may be gone. */
static enum sl_rpc_probe_result sl_ud_probe_peer(const struct sl_rpc_dial_options *opt,
						 const char *address, uint32_t number)
{
	struct ud_connect_call d = {.opt = opt,
				    .dest.path = rdma_path_spec_of(&opt->rdma),
				    .creq = creq_of(opt, number, SL_HELLO_EP_CHECK),
				    .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	struct sl_err err = SL_ERR(160);
	int rc;

	if (rdma_parse_addr(address, &d.dest.sa) || sl_psk_read(&d.psk, opt->key_file, &err))
		return SL_RPC_PROBE_NONE;
	rc = query_sidr(&d);
	if (!rc)
		rc = exchange_creq(&d, 0);
	sl_psk_wipe(&d.psk);
	if (rc)
		return rc == -ECONNREFUSED ? SL_RPC_PROBE_REFUSED : SL_RPC_PROBE_NONE;
	return d.crep.verdict == SL_UD_EP_REMOVED ? SL_RPC_PROBE_REMOVED
	       : d.crep.verdict == SL_UD_EP_ALIVE ? SL_RPC_PROBE_ALIVE
						  : SL_RPC_PROBE_NONE;
}

const struct sl_transport_scheme sl_ud_scheme = {
	.scheme = "rdma+ud",
	.route_info = sl_rdma_route_info,
	.preload = sl_rdma_preload,
	.dial = sl_ud_dial,
	.probe_peer = sl_ud_probe_peer,
	.listen = sl_ud_listen,
};
