/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host is asked once, through the connection manager (SIDR), where it takes HELLOs; what it says
 * is remembered. From then on a connection is one HELLO and its ANSWER. Who does not answer any more
 * where it was is asked again.
 *
 * Read from the bottom: sl_ud_dial -> meet -> ask, greet.
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
#include "rpc/ud/door.h"
#include "rpc/ud/hall.h"
#include "rpc/ud/listen.h"
#include "rpc/verbs/verbs.h"

enum {
	KNOWN = 1024, /* hosts, by each way, whose answer is remembered */
	TRIES_KNOWN = 3,
};

/* Who is met, and by which way: without padding. */
struct whom {
	struct sockaddr_storage sa;
	struct vb_way way;
};
_Static_assert(sizeof(struct whom) == sizeof(struct sockaddr_storage) + sizeof(struct vb_way),
	       "it is compared by its bytes");

struct known {
	struct whom whom;
	struct ud_host host;
	struct sl_list used; /* the one that was not for longest is the first */
	struct known *next;  /* of those whose hash is like its own */
};

struct dialling {
	const struct sl_rpc_dial_options *opt;
	struct whom whom;
	struct sl_secret secret;
	struct ud_host host;
	struct sl_ud_hello hello;
	struct sl_ud_answer answer;
	uint32_t mtu; /* of the hall that will have it */
	uint64_t deadline_ns;
	const char *why; /* more than the errno says */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *hosts[KNOWN]; /* by hash */
static struct sl_list used = {&used, &used};
static unsigned known_cnt;

/* --- who is known --- */

/* By the address only: all of them would take longer than to look at one by few ways. */
static struct known **bucket_of(const struct whom *w)
{
	return &hosts[sl_fnv32(SL_FNV32, &w->sa, sizeof(struct sockaddr_in6)) % KNOWN];
}

static struct known *find_host(const struct whom *w)
{
	struct known *k = *bucket_of(w);

	while (k && memcmp(&k->whom, w, sizeof(*w)) != 0)
		k = k->next;
	if (k) {
		sl_list_del(&k->used);
		sl_list_add_tail(&used, &k->used);
	}
	return k;
}

static bool recall(struct dialling *d)
{
	const struct known *k;

	pthread_mutex_lock(&lock);
	k = find_host(&d->whom);
	if (k)
		d->host = k->host;
	pthread_mutex_unlock(&lock);
	return k != NULL;
}

/* Memory for one more: new, or of the one that was not used for longest. */
static struct known *take_place(void)
{
	struct known *k, **at;

	if (known_cnt < KNOWN) {
		k = malloc(sizeof(*k));
		known_cnt += k != NULL;
		return k;
	}
	k = sl_list_first(&used, struct known, used);
	at = bucket_of(&k->whom);
	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	sl_list_del(&k->used);
	return k;
}

static void remember(const struct dialling *d)
{
	struct known *k;

	pthread_mutex_lock(&lock);
	k = find_host(&d->whom);
	if (k) {
		k->host = d->host;
	} else if ((k = take_place())) {
		struct known **bucket = bucket_of(&d->whom);

		*k = (struct known){.whom = d->whom, .host = d->host, .next = *bucket};
		*bucket = k;
		sl_list_add_tail(&used, &k->used);
	}
	pthread_mutex_unlock(&lock);
}

static int ask(struct dialling *d)
{
	const struct ud_question q = {
		.sa = &d->whom.sa, .rdma = &d->opt->rdma, .deadline_ns = d->deadline_ns};
	int rc;

	d->host = (struct ud_host){.qpn = 0};
	rc = ud_device->ask(&q, &d->host, &d->why);
	if (!rc)
		remember(d);
	return rc;
}

/* --- HELLO and ANSWER --- */

static _Thread_local struct ud_nonce next_nonce; /* of who dials by this thread */

static void draw_next(void *arg)
{
	(void)arg;
	ud_nonce_draw(&next_nonce);
}

static int say(void *arg, const struct ud_pair *door, uint8_t *to)
{
	static _Atomic uint32_t number;
	struct dialling *d = arg;
	struct sl_ud_hello *h = &d->hello;

	h->number = atomic_fetch_add(&number, 1);
	h->answer_qpn = door->qpn;
	h->mtu = d->mtu < door->mtu ? d->mtu : door->mtu;
	if (vb_series_to(&d->whom.sa, h->series) ||
	    ud_nonce_take(&next_nonce, h->nonce, sizeof(h->nonce)))
		return -EIO;
	ud_hello_prove(&d->secret, h, d->host.gid, d->host.qpn);
	memcpy(to, h, sizeof(*h));
	return (int)sizeof(*h);
}

static bool is_answer(void *arg, const struct ud_packet *p)
{
	struct dialling *d = arg;
	struct sl_ud_answer a;

	if (p->len != sizeof(a))
		return false;
	memcpy(&a, p->bytes, sizeof(a));
	if (a.magic != SL_UD_HELLO_MAGIC || a.version != SL_UD_VERSION ||
	    a.number != d->hello.number || !ud_answer_proven(&d->secret, &d->hello, &a))
		return false;
	d->answer = a;
	return true;
}

static int greet(struct dialling *d, unsigned tries)
{
	struct ud_node *n = ud_node_get(&d->host.local, d->host.gid, d->hello.tos);
	int rc;

	if (!n)
		return -ENETUNREACH;
	rc = ud_hall_prepare(&d->host.local, d->opt->worker, &d->mtu);
	if (!rc && d->host.mtu)
		d->mtu = sl_rpc_at_most(d->mtu, d->host.mtu);
	if (!rc && d->mtu < SL_UD_MTU_MIN) {
		d->why =
			"the way there takes short packets only: its interfaces need an MTU of 1100";
		rc = -EMSGSIZE;
	}
	if (rc) {
		ud_node_put(n);
		return rc;
	}
	memcpy(d->hello.gid, d->host.local.gid, sizeof(d->hello.gid));
	rc = ud_greet(&(struct ud_greeting){.local = &d->host.local,
					    .way = n->way,
					    .qpn = d->host.qpn,
					    .tries = tries,
					    .deadline_ns = d->deadline_ns,
					    .say = say,
					    .meanwhile = draw_next,
					    .is_answer = is_answer,
					    .arg = d});
	ud_node_put(n);
	if (rc == -ETIMEDOUT)
		d->why = "it does not answer: give both ends the same key file, or is it too busy?";
	if (rc == -EBUSY)
		d->why = "too many that are dialled do not answer";
	return rc;
}

/* Who has been met before may have moved. */
static int meet(struct dialling *d)
{
	int rc;

	if (recall(d) && greet(d, TRIES_KNOWN) == 0)
		return 0;
	d->why = NULL;
	rc = ask(d);
	return rc ? rc : greet(d, 0);
}

/* --- the connection --- */

static int make(struct dialling *d, struct ud_conn **c)
{
	const struct sl_ud_answer *a = &d->answer;
	struct ud_terms terms = {.id = d->hello.id,
				 .peer_id = a->id,
				 .qpn = a->qpn,
				 .slots = a->slots,
				 .mtu = a->mtu,
				 .peer_epoch = a->epoch,
				 .worker = d->opt->worker,
				 .link = d->opt->link,
				 .goes_on = d->opt->goes_on};
	struct ud_node *n;
	struct ud_keys keys;

	if (a->verdict == SL_UD_FULL) {
		d->why = SL_RPC_FULL_TEXT;
		return -EPROTO;
	}
	if (a->verdict != SL_UD_GRANTED || !ud_slots_ok(a->slots) || a->slots > d->hello.slots ||
	    a->mtu < SL_UD_MTU_MIN || a->mtu > d->hello.mtu)
		return -EBADMSG;
	ud_keys_derive(&d->secret, a, true, &keys);
	n = ud_node_get(&d->host.local, d->host.gid, d->hello.tos);
	*c = n ? ud_conn_new(&terms, &keys, n) : NULL;
	if (n && !*c)
		ud_node_put(n);
	return *c ? 0 : -ENOMEM;
}

static struct sl_ud_hello hello_of(const struct sl_rpc_dial_options *opt, uint32_t id,
				   uint32_t flags)
{
	return (struct sl_ud_hello){.magic = SL_UD_HELLO_MAGIC,
				    .version = SL_UD_VERSION,
				    .tos = opt->rdma.tos,
				    .worker = opt->worker,
				    .epoch = sl_rpc_boot_epoch(),
				    .slots = opt->slots,
				    .id = id,
				    .flags = flags,
				    .link = opt->link};
}

static int dial(struct dialling *d, struct ud_conn **c)
{
	int rc;

	d->hello = hello_of(d->opt, ud_id_get(), d->opt->goes_on ? SL_HELLO_GOES_ON : 0);
	if (!d->hello.id)
		return -EUSERS;
	rc = ud_slots_ok(d->hello.slots) ? meet(d) : -EINVAL;
	if (!rc)
		rc = make(d, c);
	if (rc)
		ud_id_put(d->hello.id);
	return rc;
}

static struct sl_transport *sl_ud_dial(const struct sl_rpc_dial_options *opt, const char *address,
				       struct sl_err *err)
{
	struct dialling d = {.opt = opt,
			     .whom.way = vb_way_of(&opt->rdma),
			     .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	struct ud_conn *c = NULL;
	int rc;

	if (vb_address(address, &d.whom.sa)) {
		sl_err_set(err,
			   "rdma+ud://%s: expected a numeric address and port, as in "
			   "rdma+ud://10.0.0.2:7471",
			   address);
		return NULL;
	}
	if (sl_secret_read(&d.secret, opt->key_file, err))
		return NULL;
	rc = dial(&d, &c);
	sl_secret_wipe(&d.secret);
	if (rc) {
		sl_err_set(err, "rdma+ud://%s: %s", address, d.why ? d.why : strerror(-rc));
		return NULL;
	}
	snprintf(c->base.info, sizeof(c->base.info), "ud %s, %u slots, datagrams of %u bytes",
		 d.host.local.name, d.answer.slots, d.answer.mtu);
	return &c->base;
}

/* Where it was once may be nobody by now, so the connection manager comes first. */
static enum sl_rpc_word sl_ud_ask(const struct sl_rpc_dial_options *opt, const char *address,
				  uint32_t number)
{
	struct dialling d = {.opt = opt,
			     .whom.way = vb_way_of(&opt->rdma),
			     .hello = hello_of(opt, number, SL_HELLO_ASKS),
			     .deadline_ns = sl_now_ns() + opt->timeout_ms * SL_NS_PER_MS};
	struct sl_err err = SL_ERR(160);
	int rc;

	if (vb_address(address, &d.whom.sa) || sl_secret_read(&d.secret, opt->key_file, &err))
		return SL_RPC_NO_WORD;
	rc = ask(&d);
	if (!rc)
		rc = greet(&d, 0);
	sl_secret_wipe(&d.secret);
	if (rc)
		return rc == -ECONNREFUSED ? SL_RPC_NOBODY : SL_RPC_NO_WORD;
	return d.answer.verdict == SL_UD_RESET   ? SL_RPC_FORGOTTEN
	       : d.answer.verdict == SL_UD_KNOWN ? SL_RPC_KNOWN
						 : SL_RPC_NO_WORD;
}

const struct sl_transport_scheme sl_ud_scheme = {
	.scheme = "rdma+ud",
	.probe = sl_verbs_probe,
	.preload = sl_verbs_preload,
	.dial = sl_ud_dial,
	.ask = sl_ud_ask,
	.listen = sl_ud_listen,
};
