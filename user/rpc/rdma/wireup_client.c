/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialing end of wireup. Listeners' queue pairs are cached. A change of a GID table drops the cache:
 * paths are resolved again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fnv.h"
#include "rpc/rdma/ah_cache.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/wireup_qp.h"
#include "rpc/transport.h"

enum {
	HOSTS_MAX = 1024, /* cached listeners, per path */
	CACHED_TRIES = 3,
};

struct wireup_host {
	struct wireup_dest dest;
	struct sidr_result host;
	struct sl_list used; /* LRU list */
	struct wireup_host *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wireup_host *hosts[HOSTS_MAX];
static struct sl_list used = {&used, &used};
static unsigned host_cnt;
static unsigned gid_changes;
static pid_t owner; /* process that resolved the entries */

/* Hashes the address only, which is faster; hosts have few paths. */
static struct wireup_host **bucket_of(const struct wireup_dest *w)
{
	return &hosts[sl_fnv32(SL_FNV32, &w->sa, sizeof(struct sockaddr_in6)) % HOSTS_MAX];
}

static struct wireup_host *find_host(const struct wireup_dest *w)
{
	struct wireup_host *k = *bucket_of(w);

	while (k && memcmp(&k->dest, w, sizeof(*w)) != 0)
		k = k->next;
	if (k) {
		sl_list_del(&k->used);
		sl_list_add_tail(&used, &k->used);
	}
	return k;
}

/* Lock held. */
static void drop_all(void)
{
	struct sl_list *at;

	memset(hosts, 0, sizeof(hosts));
	while ((at = sl_list_pop_head(&used)))
		free(sl_container_of(at, struct wireup_host, used));
	host_cnt = 0;
}

/* A forked child has no device of its parent's entries. Lock held. */
static void forget_parents(void)
{
	if (owner != getpid())
		drop_all();
	owner = getpid();
}

static bool lookup_host(struct wireup_dial *d)
{
	const struct wireup_host *k;

	pthread_mutex_lock(&lock);
	forget_parents();
	k = find_host(&d->dest);
	if (k)
		d->host = k->host;
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

static struct wireup_host *alloc_host_entry(void)
{
	struct wireup_host *k, **at;

	if (host_cnt < HOSTS_MAX) {
		k = malloc(sizeof(*k));
		host_cnt += k != NULL;
		return k;
	}
	k = sl_list_first(&used, struct wireup_host, used);
	at = bucket_of(&k->dest);
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	sl_list_del(&k->used);
	return k;
}

static void drop_hosts(struct ibv_context *device, const struct ibv_async_event *ev)
{
	(void)device;
	if (ev->event_type != IBV_EVENT_GID_CHANGE)
		return;
	pthread_mutex_lock(&lock);
	gid_changes++;
	drop_all();
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
static void store_host(const struct wireup_dial *d, unsigned changes)
{
	struct wireup_host *k;

	pthread_mutex_lock(&lock);
	forget_parents();
	k = find_host(&d->dest);
	if (k && gid_changes == changes) {
		k->host = d->host;
	} else if (gid_changes == changes && (k = alloc_host_entry())) {
		struct wireup_host **bucket = bucket_of(&d->dest);

		*k = (struct wireup_host){.dest = d->dest, .host = d->host, .next = *bucket};
		*bucket = k;
		sl_list_add_tail(&used, &k->used);
	}
	pthread_mutex_unlock(&lock);
}

static int query_sidr(struct wireup_dial *d)
{
	const struct sidr_query q = {.sa = &d->dest.sa,
				     .rdma = &d->opt->rdma,
				     .deadline_ns = d->deadline_ns,
				     .rc = d->dest.want == SL_WIREUP_RC};
	unsigned changes = watch_gids();
	int rc;

	d->host = (struct sidr_result){.qpn = 0};
	rc = rdma_device->sidr_resolve(&q, &d->host, &d->why);
	if (!rc)
		store_host(d, changes);
	return rc;
}

static _Thread_local struct wireup_nonce next_nonce; /* one per dialing thread */

static int build_creq(void *arg, const struct ud_qp *qp, uint8_t *to)
{
	static _Atomic uint32_t number;
	struct wireup_dial *d = arg;
	struct wireup_target target = {.epoch = d->host.epoch, .qpn = d->host.qpn};
	struct sl_wireup_creq *h = &d->creq;

	memcpy(target.gid, d->host.gid, sizeof(target.gid));
	h->number = atomic_fetch_add(&number, 1);
	h->answer_qpn = qp->qpn;
	h->mtu = sl_rpc_at_most(h->mtu, qp->mtu);
	if (wireup_nonce_take(&next_nonce, h->nonce, sizeof(h->nonce)))
		return -EIO;
	wireup_creq_sign(&d->psk, h, &target);
	memcpy(to, h, sizeof(*h));
	return (int)sizeof(*h);
}

static bool is_crep(void *arg, const struct ud_packet *p)
{
	struct wireup_dial *d = arg;
	struct sl_wireup_crep a;

	if (p->len != sizeof(a))
		return false;
	memcpy(&a, p->bytes, sizeof(a));
	if (a.magic != SL_WIREUP_MAGIC || a.version != SL_UD_VERSION ||
	    a.number != d->creq.number || !wireup_crep_verify(&d->psk, &d->creq, &a))
		return false;
	d->crep = a;
	return true;
}

static void overlap(void *arg)
{
	const struct wireup_dial *d = arg;

	wireup_nonce_draw(&next_nonce);
	if (d->overlap)
		d->overlap(d->arg);
}

/* Sends CREQs until an authentic CREP arrives. tries = 0: until the deadline. */
static int call_listener(struct wireup_dial *d, unsigned tries)
{
	struct ah_entry *n = ah_cache_get(&d->host.local, d->host.gid, d->creq.tos);
	int rc;

	if (!n)
		return -ENETUNREACH;
	memcpy(d->creq.gid, d->host.local.gid, sizeof(d->creq.gid));
	rc = wireup_call_run(&(struct wireup_call){.local = &d->host.local,
						   .ah = n->ah,
						   .qpn = d->host.qpn,
						   .tries = tries,
						   .deadline_ns = d->deadline_ns,
						   .build = build_creq,
						   .is_reply = is_crep,
						   .overlap = overlap,
						   .arg = d});
	ah_cache_put(n);
	if (rc == -ETIMEDOUT)
		d->why = "no answer: give both ends the same key file, or the backend is too busy";
	if (rc == -EBUSY)
		d->why = "too many backends do not answer";
	return rc;
}

static int prepare_conn(struct wireup_dial *d)
{
	d->creq.mtu = d->host.mtu ? d->host.mtu : UD_MTU_MAX;
	return d->prepare ? d->prepare(d) : 0;
}

static void undo_conn(struct wireup_dial *d)
{
	if (d->undo)
		d->undo(d);
}

static int verdict_error(struct wireup_dial *d)
{
	switch (d->crep.verdict) {
	case SL_WIREUP_GRANTED: return 0;
	case SL_WIREUP_FULL: d->why = SL_RPC_FULL_TEXT; return -EPROTO;
	case SL_WIREUP_BAD_SIZES:
		d->why = "refused: the backend does not grant these sizes";
		return -EPROTO;
	default: return -EBADMSG;
	}
}

static bool is_same_path(const struct sidr_result *a, const struct sidr_result *b)
{
	return rdma_local_same(&a->local, &b->local) && a->mtu == b->mtu && a->sl == b->sl &&
	       memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

/* Asks a cached listener. Returns 0, or -errno; then *prepared may need undo_conn(). */
static int try_cached(struct wireup_dial *d, bool *prepared)
{
	int rc = lookup_host(d) ? prepare_conn(d) : -ENOENT;

	*prepared = rc == 0;
	return rc ? rc : call_listener(d, CACHED_TRIES);
}

/*
 * A cached listener may have moved, or be slow. A slow one may have made its end for the prepared
 * connection, so that is kept if the path is the same.
 */
static int ask_again(struct wireup_dial *d, bool prepared)
{
	const struct sidr_result cached = d->host;
	const char *why = d->why;
	int rc;

	d->why = NULL;
	rc = query_sidr(d);
	if (rc == -ETIMEDOUT && !d->why)
		d->why = why;
	if (prepared && (rc || !is_same_path(&cached, &d->host))) {
		undo_conn(d);
		prepared = false;
	}
	if (!rc && !prepared)
		rc = prepare_conn(d);
	if (rc)
		return rc;
	rc = call_listener(d, 0);
	if (rc)
		undo_conn(d);
	return rc;
}

int wireup_dial_run(struct wireup_dial *d)
{
	bool prepared;
	int rc = try_cached(d, &prepared);

	if (rc)
		rc = ask_again(d, prepared);
	if (rc)
		return rc;
	rc = verdict_error(d);
	if (rc)
		undo_conn(d);
	return rc;
}

int wireup_dial_init(struct wireup_dial *d, const struct sl_rpc_dial_options *opt,
		     enum sl_wireup_want want, const char *address, struct sl_err *err)
{
	const char *scheme = want == SL_WIREUP_RC ? "rdma" : "rdma+ud";

	d->opt = opt;
	d->dest.path = rdma_path_spec_of(&opt->rdma);
	d->dest.want = want;
	d->deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS;
	if (rdma_parse_addr(address, &d->dest.sa)) {
		sl_err_set(err,
			   "%s://%s: expected a numeric address and port, as in "
			   "%s://10.0.0.2:7471",
			   scheme, address, scheme);
		return -1;
	}
	d->creq.magic = SL_WIREUP_MAGIC;
	d->creq.version = SL_UD_VERSION;
	d->creq.want = want;
	d->creq.epoch = sl_rpc_boot_epoch();
	d->creq.tos = opt->rdma.tos;
	d->creq.worker = opt->worker;
	d->creq.slots = opt->slots;
	d->creq.flags = opt->resumes ? SL_HELLO_RESUME : 0;
	d->creq.link = opt->link;
	if (auth_sender_id(&d->dest.sa, d->creq.sender_id)) {
		sl_err_set(err, "%s://%s: no random numbers", scheme, address);
		return -1;
	}
	return sl_psk_read(&d->psk, opt->key_file, err) ? -1 : 0;
}

/* Asks by SIDR first: the cached queue pair may be gone. */
enum sl_rpc_probe_result wireup_probe(const struct sl_rpc_dial_options *opt,
				      enum sl_wireup_want want, const char *address,
				      uint32_t number)
{
	struct wireup_dial d = {.prepare = NULL};
	struct sl_err err = SL_ERR(160);
	int rc;

	if (wireup_dial_init(&d, opt, want, address, &err))
		return SL_RPC_PROBE_NONE;
	d.creq.flags = SL_HELLO_EP_CHECK;
	d.creq.id = number;
	rc = query_sidr(&d);
	if (!rc)
		rc = prepare_conn(&d);
	if (!rc)
		rc = call_listener(&d, 0);
	sl_psk_wipe(&d.psk);
	if (rc)
		return rc == -ECONNREFUSED ? SL_RPC_PROBE_REFUSED : SL_RPC_PROBE_NONE;
	return d.crep.verdict == SL_WIREUP_EP_REMOVED ? SL_RPC_PROBE_REMOVED
	       : d.crep.verdict == SL_WIREUP_EP_ALIVE ? SL_RPC_PROBE_ALIVE
						      : SL_RPC_PROBE_NONE;
}
