/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backend that has been taken over. It speaks the RPC's messages without the library:
 *
 *   more   refuses each request, with MORE, and answers them all when the file exists
 *   early  refuses a long request at its first fragment, reads nothing more before the file exists,
 *          then reads on, and tells how many bytes of the payload were not 'z'
 *
 *   hostile --listen ENDPOINT --mode more|early --until FILE
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rpc.h"
#include "rpc/transport.h"

enum { CHANNELS = 16, IDS = 256, LONG = 1 << 20, ALIVE_NS = 500000000 };

static const char injected[] = "INJECTED BY BACKEND A";

struct channel {
	struct sl_transport *t;
	uint64_t ids[IDS];
	unsigned id_cnt;
	bool paused;
	uint64_t left, foreign, total; /* bytes of the long request, which was refused */
	uint64_t message;              /* its id */
	uint64_t alive_ns;             /* when it said so last */
};

static struct channel channels[CHANNELS];
static const char *until;
static bool early;
static uint64_t said;

static void say(struct channel *ch, uint64_t id, uint8_t status, uint8_t flags, const char *text)
{
	uint8_t body[128] = {0};
	struct sl_rpc_entry e = {
		.id = id, .len = (uint32_t)strlen(text), .status = status, .flags = flags};
	struct sl_rpc_header h = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
		.flags = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_NORMAL,
		.count = 1,
		.fragment_len = (uint32_t)(sizeof(e) + sl_rpc_pad8(e.len)),
		.id = sl_rpc_boot_epoch() << 48 | ++said,
	};
	struct sl_span span = sl_span_of(body, h.fragment_len);

	h.total_or_offset = h.fragment_len;
	memcpy(body, &e, sizeof(e));
	memcpy(body + sizeof(e), text, e.len);
	if (ch->t->ops->post(ch->t, &h, &span, 1, 0))
		fprintf(stderr, "no room to say it\n");
	ch->t->ops->flush(ch->t);
}

static void tell(const char *what, uint64_t a, uint64_t b)
{
	printf("%s %llu %llu\n", what, (unsigned long long)a, (unsigned long long)b);
	fflush(stdout);
}

static void count(struct channel *ch, const uint8_t *p, uint64_t len)
{
	for (uint64_t i = 0; i < len && ch->left; i++, ch->left--)
		ch->foreign += p[i] != 'z';
	if (!ch->left)
		tell("read", ch->total, ch->foreign);
}

/* The first fragment of a request with one long payload; what of that has come is looked at. */
static void refuse_early(struct channel *ch, const struct sl_rpc_header *h,
			 const struct sl_rpc_entry *e, const uint8_t *payload, uint64_t have)
{
	say(ch, e->id, SL_RPC_REFUSED, 0, "");
	ch->left = ch->total = e->len;
	ch->foreign = 0;
	ch->message = h->id;
	ch->paused = true;
	count(ch, payload, have);
	tell("refused", e->len, have);
}

static void take_requests(struct channel *ch, const struct sl_message *m)
{
	static uint8_t bytes[SL_RPC_MAX_BULK];
	const struct sl_rpc_header *h = &m->header;
	struct sl_rpc_entry e[IDS];
	uint32_t meta;

	memcpy(bytes, m->body, h->fragment_len);
	if (!(h->flags & SL_RPC_FIRST)) {
		if (ch->left && h->id == ch->message)
			count(ch, bytes, h->fragment_len);
		return;
	}
	if (h->count > IDS)
		exit(1);
	memcpy(e, bytes, h->count * sizeof(e[0]));
	meta = (uint32_t)(h->count * sizeof(e[0]) + sl_rpc_pad8(e[0].meta_len));
	if (early && h->count == 1 && e[0].len > LONG) {
		refuse_early(ch, h, e, bytes + meta, h->fragment_len - meta);
		return;
	}
	for (unsigned i = 0; i < h->count; i++) {
		say(ch, e[i].id, SL_RPC_REFUSED, early ? 0 : SL_ENTRY_MORE, "");
		ch->ids[ch->id_cnt++ % IDS] = e[i].id;
		tell("refused", e[i].id, early);
	}
}

static void let_go(struct channel *ch)
{
	ch->paused = false;
	if (early || !ch->id_cnt)
		return;
	for (unsigned i = ch->id_cnt > IDS ? ch->id_cnt - IDS : 0; i < ch->id_cnt; i++)
		say(ch, ch->ids[i % IDS], SL_RPC_OK, 0, injected);
	tell("injected", ch->id_cnt, 0);
	ch->id_cnt = 0;
}

/* Answers PINGs, which a channel that does not read would miss, and reports consumed messages. */
static void say_alive(struct channel *ch)
{
	struct sl_rpc_header h = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_PONG,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
	};

	if (sl_now_ns() < ch->alive_ns + ALIVE_NS)
		return;
	ch->alive_ns = sl_now_ns();
	(void)ch->t->ops->post(ch->t, &h, NULL, 0, 0);
	ch->t->ops->flush(ch->t);
}

static void look(struct channel *ch)
{
	struct sl_message m;
	int n;

	if (access(until, F_OK) == 0)
		let_go(ch);
	say_alive(ch);
	if (ch->paused)
		return;
	(void)ch->t->ops->check(ch->t);
	n = ch->t->ops->poll(ch->t, &m, 1);
	if (n < 0) {
		tell("lost", (uint64_t)-n, ch->left);
		ch->t->ops->close(ch->t);
		*ch = (struct channel){.t = NULL};
		return;
	}
	if (n) {
		if ((m.header.version_type & 15) == SL_RPC_REQUEST)
			take_requests(ch, &m);
		ch->t->ops->release(ch->t, &m);
	}
	ch->t->ops->flush(ch->t);
}

static void accept_into(struct channel *ch, struct sl_rpc_listener *l)
{
	if (!ch->t)
		ch->t = l->ops->accept(l, sl_now_ns());
}

int main(int argc, char **argv)
{
	struct sl_rpc_listen_options opt = {.bulk_ring_len = 4 << 20, .slots = 256};
	const char *endpoint = NULL;
	struct sl_rpc_listener *l;
	struct sl_err err = SL_ERR(256);

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--listen"))
			endpoint = argv[i + 1];
		else if (!strcmp(argv[i], "--until"))
			until = argv[i + 1];
		else if (!strcmp(argv[i], "--mode"))
			early = !strcmp(argv[i + 1], "early");
	}
	if (!endpoint || !until)
		return 2;
	l = sl_rpc_listen(endpoint, &opt, &err);
	if (!l) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (;;) {
		for (unsigned i = 0; i < CHANNELS; i++) {
			accept_into(&channels[i], l);
			if (channels[i].t)
				look(&channels[i]);
		}
		usleep(200);
	}
}
