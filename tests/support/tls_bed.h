/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections with TLS between a transport and a front that the test plays. The handshake is left
 * out: the test says what a thread would have found, and seals and opens as the client does.
 *
 *   bed_say -> client's records -> bed_feed (cut as the test wants) -> tls -> got (as much as it takes)
 *   heard <- client opens <- sent <- lay, commit, write <- tls <- offers->write
 */
#ifndef SL_TESTS_TLS_BED_H
#define SL_TESTS_TLS_BED_H

#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"
#include "front/tls/conn.h"

enum {
	BED_FRAMES = 256,
	BED_KEEP = 256 << 10,
	BED_SEGMENT = 1448,
	BED_CONNS = 64,
};

#define bed_require(cond) ((cond) ? (void)0 : bed_failed(#cond, __LINE__))

static inline _Noreturn void bed_failed(const char *what, int line)
{
	fprintf(stderr, "tls_bed.h:%d: %s\n", line, what);
	abort();
}

struct bed_conn {
	struct sl_filter *filter; /* NULL: gone */
	struct sl_tls_dir rx, tx; /* the client's */
	/* transport */
	struct sl_addr peer;
	uint8_t *sent;
	size_t sent_len, laid, opened; /* opened: bytes of `sent` that the client has read */
	size_t room;
	size_t dry_at; /* bytes of `sent` from which on there is no frame; 0: never */
	bool closed, reset, resumed;
	/* front */
	uint8_t *got;
	size_t got_len, takes; /* takes: bytes of each offer, at the most */
	bool named, opened_told, eof, ended, takes_frames;
	int on_input; /* 1: closes in it, 2: resets, 3: resumes */
	struct sl_frame *frames;
	uint8_t *heard;
	size_t heard_len;
	uint8_t alert; /* the last that the client has heard; 255: none */
	unsigned records, updates;
};

struct tls_bed {
	struct sl_umem umem;
	struct sl_tls *tls;
	struct sl_tls_server *server;
	struct sl_tls_ciphers *ciphers;
	struct sl_tls_hs *submitted[SL_TLS_HANDSHAKES];
	unsigned submitted_cnt;
	bool full; /* threads have no room */
	uint64_t now_ns;
	struct bed_conn conns[BED_CONNS];
};

static struct tls_bed bed;

/* --- transport --- */

static inline size_t bed_t_write(void *self, const void *bytes, size_t len)
{
	struct bed_conn *b = self;
	size_t n = len < b->room ? len : b->room;

	bed_require(b->sent_len + n <= BED_KEEP);
	memcpy(b->sent + b->sent_len, bytes, n);
	b->sent_len += n;
	b->room -= n;
	return n;
}

static inline bool bed_t_write_head(void *self, const void *bytes, size_t len)
{
	struct bed_conn *b = self;

	bed_require(b->sent_len + len <= BED_KEEP);
	memcpy(b->sent + b->sent_len, bytes, len);
	b->sent_len += len;
	return true;
}

static inline size_t bed_t_room(const void *self)
{
	return ((const struct bed_conn *)self)->room;
}

static inline void bed_t_nothing(void *self)
{
	(void)self;
}

static inline void bed_t_resume(void *self)
{
	((struct bed_conn *)self)->resumed = true;
}

static inline void bed_t_close(void *self)
{
	((struct bed_conn *)self)->closed = true;
}

static inline void bed_t_reset(void *self)
{
	((struct bed_conn *)self)->reset = true;
}

static inline void bed_t_info(const void *self, struct sl_conn_info *out)
{
	*out = (struct sl_conn_info){.peer = ((const struct bed_conn *)self)->peer};
}

/* Room to the end of a segment, or a segment more. */
static inline uint8_t *bed_t_lay(void *self, size_t min, bool beyond, size_t *room)
{
	struct bed_conn *b = self;

	bed_require(!b->closed);
	*room = BED_SEGMENT - b->sent_len % BED_SEGMENT;
	if (*room < min)
		*room = BED_SEGMENT;
	if ((!beyond && b->room < min) || b->sent_len + *room > BED_KEEP ||
	    (b->dry_at && b->sent_len >= b->dry_at))
		return NULL;
	b->laid = *room;
	return b->sent + b->sent_len;
}

static inline void bed_t_commit(void *self, size_t len)
{
	struct bed_conn *b = self;

	bed_require(len <= b->laid);
	b->laid = 0;
	b->sent_len += len;
	b->room -= len < b->room ? len : b->room;
}

static inline bool bed_t_fits_head(const void *self, size_t len)
{
	const struct bed_conn *b = self;

	return len <= b->room + SL_TLS_PLAIN_MAX;
}

static const struct sl_conn_ops bed_transport = {
	.write = bed_t_write,
	.write_head = bed_t_write_head,
	.room = bed_t_room,
	.want_room = bed_t_nothing,
	.resume = bed_t_resume,
	.close = bed_t_close,
	.reset = bed_t_reset,
	.info = bed_t_info,
	.lay = bed_t_lay,
	.commit = bed_t_commit,
	.fits_head = bed_t_fits_head,
};

/* --- front --- */

static inline size_t bed_u_input(void *user, struct sl_chunk *chunk)
{
	struct bed_conn *b = user;
	size_t n = chunk->len < b->takes ? chunk->len : b->takes;

	bed_require(chunk->len > 0 && b->opened_told && !b->eof && !b->ended);
	bed_require(b->got_len + n <= BED_KEEP);
	memcpy(b->got + b->got_len, chunk->ptr, n);
	b->got_len += n;
	if (chunk->frame)
		bed_require(chunk->frame->data == chunk->ptr && chunk->frame->len == chunk->len);
	if (b->takes_frames && chunk->frame && n == chunk->len) {
		chunk->frame->next = b->frames;
		b->frames = chunk->frame;
		chunk->frame = NULL;
	}
	if (b->on_input == 1)
		b->filter->offers->close(b->filter);
	if (b->on_input == 2) {
		b->filter->offers->reset(b->filter);
		b->filter = NULL;
	}
	if (b->on_input == 3)
		b->filter->offers->resume(b->filter);
	return n;
}

static inline void bed_u_named(void *user)
{
	((struct bed_conn *)user)->named = true;
}

static inline void bed_u_opened(void *user)
{
	((struct bed_conn *)user)->opened_told = true;
}

static inline void bed_u_eof(void *user)
{
	((struct bed_conn *)user)->eof = true;
}

static inline void bed_u_writable(void *user)
{
	(void)user;
}

static inline void bed_u_closed(void *user)
{
	struct bed_conn *b = user;

	bed_require(!b->ended);
	b->ended = true;
	b->filter = NULL;
}

static const struct sl_conn_user bed_front = {.named = bed_u_named,
					      .opened = bed_u_opened,
					      .input = bed_u_input,
					      .eof = bed_u_eof,
					      .writable = bed_u_writable,
					      .closed = bed_u_closed};

/* --- the bed --- */

static inline bool bed_submit(void *arg, struct sl_tls_hs *hs)
{
	(void)arg;
	if (bed.full)
		return false;
	bed.submitted[bed.submitted_cnt++] = hs;
	return true;
}

/* A certificate for "a.example", signed by itself, in two files. */
static inline void bed_write_pair(const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *f;

	bed_require(key && x);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), 0);
	X509_gmtime_adj(X509_getm_notAfter(x), 86400);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				   (const uint8_t *)"a.example", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	bed_require(X509_sign(x, key, EVP_sha256()) > 0);
	f = fopen(cert_path, "w");
	bed_require(f && PEM_write_X509(f, x));
	fclose(f);
	f = fopen(key_path, "w");
	bed_require(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL));
	fclose(f);
	bed_require(chmod(key_path, 0600) == 0);
	X509_free(x);
	EVP_PKEY_free(key);
}

static inline struct sl_tls_server *bed_server(void)
{
	char cert[] = "/tmp/sl-tls-cert-XXXXXX", key[] = "/tmp/sl-tls-key-XXXXXX";
	struct sl_cfg_file files[2] = {{cert, 1}, {key, 1}};
	struct sl_cfg_tls cfg = {.handshake_threads = 1,
				 .certificates = &files[0],
				 .keys = &files[1],
				 .certificate_cnt = 1,
				 .key_cnt = 1};
	struct conf_diags mistakes = {.file = "bed"};
	struct sl_tls_tickets *own = sl_tls_tickets_new();
	struct sl_tls_server *s;
	int fds[2] = {mkstemp(cert), mkstemp(key)};

	bed_require(fds[0] >= 0 && fds[1] >= 0 && own);
	bed_write_pair(cert, key);
	s = sl_tls_server_new(&cfg, own, &mistakes);
	bed_require(s);
	sl_tls_tickets_put(own);
	for (unsigned i = 0; i < 2; i++)
		close(fds[i]);
	unlink(cert);
	unlink(key);
	return s;
}

/* Certificate and key are of this process: to make them takes longer than most of what is tried. */
static inline struct sl_tls_server *bed_server_once(void)
{
	static struct sl_tls_server *made;

	if (!made)
		made = bed_server();
	return sl_tls_server_get(made);
}

/* As a worker has it. */
static inline struct sl_tls *bed_worker(void)
{
	struct sl_tls_config cfg = {.max_conns = 4 * BED_CONNS,
				    .umem = &bed.umem,
				    .now_ns = &bed.now_ns,
				    .submit = bed_submit};
	struct sl_tls *t = sl_tls_create(&cfg);

	bed_require(t);
	/* Addresses of a test share a bucket each time, or never. */
	t->key = (struct sl_sipkey){1, 2};
	return t;
}

static inline void bed_start(void)
{
	memset(&bed, 0, sizeof(bed));
	bed.now_ns = 1000000000;
	bed_require(sl_umem_init(&bed.umem, 2048, BED_FRAMES) == 0);
	bed.tls = bed_worker();
	bed.ciphers = sl_tls_ciphers_new();
	bed.server = bed_server_once();
	bed_require(bed.ciphers);
	bed.tls->servers[0] = sl_tls_server_get(bed.server);
}

/* The transport alone. */
static inline struct bed_conn *bed_reach(unsigned i)
{
	struct bed_conn *b = &bed.conns[i];

	*b = (struct bed_conn){.sent = calloc(1, BED_KEEP),
			       .got = malloc(BED_KEEP),
			       .heard = malloc(BED_KEEP),
			       .room = BED_KEEP,
			       .takes = BED_KEEP,
			       .alert = 255};
	return b;
}

static inline struct bed_conn *bed_accept(unsigned i)
{
	struct bed_conn *b = bed_reach(i);
	struct sl_conn_info info = {0};

	bed_require(
		sl_tls_open_conn(bed.tls, (struct sl_conn){&bed_transport, b}, &info, &b->filter));
	bed_require(b->filter);
	b->filter->up = &bed_front;
	b->filter->user = b;
	return b;
}

/* A segment: in a frame as a transport has it, or as bytes that may only be copied. */
static inline size_t bed_offer(struct bed_conn *b, const uint8_t *bytes, size_t len, bool framed)
{
	struct sl_frame *f = framed ? sl_frame_get(&bed.umem, SL_FRAME_HELD, 0) : NULL;
	uint8_t *copy = malloc(len);
	struct sl_chunk chunk = {.ptr = copy, .len = len, .frame = f};
	size_t used;

	memcpy(copy, bytes, len);
	if (f) {
		memcpy(f->data, bytes, len);
		f->len = (uint16_t)len;
		chunk.ptr = f->data;
	}
	used = b->filter->below_tells->input(b->filter, &chunk);
	bed_require(used <= len && (chunk.frame || !f || used == len));
	if (chunk.frame)
		sl_frame_put(&bed.umem, chunk.frame);
	free(copy);
	return used;
}

/* All of it, in pieces of a random length; what is not taken is offered again. */
static inline void bed_feed(struct bed_conn *b, const uint8_t *bytes, size_t len, size_t piece,
			    struct sl_prng *prng)
{
	while (len && b->filter) {
		size_t n = piece < len ? piece : len, used;

		if (prng)
			n = 1 + (size_t)sl_prng_below(prng, (uint32_t)n);
		if (n > BED_SEGMENT)
			n = BED_SEGMENT;
		used = bed_offer(b, bytes, n, !prng || sl_prng_below(prng, 2));
		bytes += used;
		len -= used;
		while (used < n && b->filter) {
			b->resumed = false;
			b->filter->offers->resume(b->filter);
			if (b->resumed || b->closed)
				break;
			if (!b->takes)
				return; /* a front that takes nothing gets no more */
		}
	}
}

static const uint8_t bed_hello[] = {22, 3, 1, 0, 4, 1, 0, 0, 0};

/* Says hello; b->tx is then for what the client says behind its handshake. Returns the step of it. */
static inline struct sl_tls_hs *bed_say_hello(struct bed_conn *b)
{
	bed_offer(b, bed_hello, sizeof(bed_hello), true);
	memset(b->tx.secret, 1, SL_TLS_SECRET_MAX);
	bed_require(sl_tls_dir_derive(&b->tx, 0));
	return bed.submitted[--bed.submitted_cnt];
}

/* Results of the thread. */
static inline void bed_finish(struct sl_tls_hs *hs, struct bed_conn *b)
{
	memset(hs->rx.secret, (int)(b - bed.conns) + 1, SL_TLS_SECRET_MAX);
	memset(hs->tx.secret, (int)(b - bed.conns) + 101, SL_TLS_SECRET_MAX);
	hs->rx.suite = hs->tx.suite = SL_TLS_AES_128_GCM_SHA256;
	bed_require(sl_tls_dir_derive(&hs->rx, 0) && sl_tls_dir_derive(&hs->tx, 0));
	b->tx = hs->rx;
	b->rx = hs->tx;
	hs->piece_max = SL_TLS_PLAIN_MAX;
	hs->step = SL_TLS_DONE;
	hs->in_used = hs->in_len;
	sl_tls_result(bed.tls, hs);
}

static inline struct bed_conn *bed_open(unsigned i)
{
	struct bed_conn *b = bed_accept(i);

	bed_require(bed_offer(b, bed_hello, sizeof(bed_hello), true) == sizeof(bed_hello));
	bed_require(bed.submitted_cnt > 0);
	bed_finish(bed.submitted[--bed.submitted_cnt], b);
	bed_require(b->opened_told);
	return b;
}

/* A record of the client's; returns its length. */
static inline size_t bed_seal(struct bed_conn *b, uint8_t type, const void *bytes, size_t len,
			      uint8_t *record)
{
	if (len)
		memcpy(record + SL_TLS_HEAD, bytes, len);
	return sl_tls_seal(bed.ciphers, &b->tx, type, record, len);
}

static inline void bed_say(struct bed_conn *b, uint8_t type, const void *bytes, size_t len)
{
	static uint8_t record[SL_TLS_CIPHER_MAX + 64];

	bed_feed(b, record, bed_seal(b, type, bytes, len, record), BED_SEGMENT, NULL);
}

/* The client reads what was sent: data to `heard`, the rest as it is meant. */
static inline void bed_hear(struct bed_conn *b)
{
	static uint8_t record[SL_TLS_CIPHER_MAX + 64];

	sl_tls_flush(bed.tls);
	while (b->sent_len - b->opened >= SL_TLS_HEAD) {
		const uint8_t *head = b->sent + b->opened;
		size_t len = (size_t)head[3] << 8 | head[4];
		struct sl_tls_piece piece = {record, len};

		bed_require(b->sent_len - b->opened >= SL_TLS_HEAD + len);
		memcpy(record, head + SL_TLS_HEAD, len);
		bed_require(sl_tls_open(bed.ciphers, &b->rx, head, &piece, 1));
		b->opened += SL_TLS_HEAD + len;
		b->records++;
		len -= SL_TLS_TAG;
		while (len && !record[len - 1])
			len--;
		bed_require(len-- > 0);
		if (record[len] == SL_TLS_DATA) {
			memcpy(b->heard + b->heard_len, record, len);
			b->heard_len += len;
		} else if (record[len] == SL_TLS_ALERT) {
			b->alert = record[1];
		} else {
			bed_require(record[len] == SL_TLS_HANDSHAKE && record[0] == 24);
			bed_require(sl_tls_dir_update(bed.ciphers, &b->rx));
			b->updates++;
		}
	}
}

static inline void bed_release(struct bed_conn *b)
{
	for (struct sl_frame *f = b->frames, *next; f; f = next) {
		next = f->next;
		sl_frame_put(&bed.umem, f);
	}
	free(b->sent);
	free(b->got);
	free(b->heard);
	b->frames = NULL;
	b->sent = b->got = b->heard = NULL;
}

/* Everything goes, and nothing is left over. */
static inline void bed_stop(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	for (unsigned i = 0; i < BED_CONNS; i++) {
		struct bed_conn *b = &bed.conns[i];

		if (b->filter)
			b->filter->below_tells->closed(b->filter);
		bed_release(b);
	}
	while (bed.submitted_cnt)
		sl_tls_result(bed.tls, bed.submitted[--bed.submitted_cnt]);
	bed_require(sl_mempool_used(&bed.tls->conns) == 0 && sl_mempool_used(&bed.tls->hs) == 0);
	bed_require(sl_mempool_used(&bed.tls->identity) == 0 && bed.tls->backlog_frames == 0);
	sl_umem_census(&bed.umem, census);
	bed_require(census[SL_FRAME_FREE] == BED_FRAMES);
	sl_tls_destroy(bed.tls);
	sl_tls_server_put(bed.server);
	sl_tls_ciphers_free(bed.ciphers);
	sl_umem_fini(&bed.umem);
}

#endif
