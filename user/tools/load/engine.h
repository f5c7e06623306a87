/* SPDX-License-Identifier: Apache-2.0 */
/* Engine: decides what is sent when. TLS (tls.h) may be between engine and I/O. */
#ifndef SL_TOOLS_LOAD_ENGINE_H
#define SL_TOOLS_LOAD_ENGINE_H

#include "base/err.h"
#include "base/rand.h"
#include "tools/load/load.h"
#include "tools/load/reply.h"

struct sl_load;
struct sl_load_tls;

enum sl_load_conn_state { SL_CONN_CLOSED, SL_CONN_OPENING, SL_CONN_SHAKING, SL_CONN_OPEN };

struct sl_load_conn {
	struct sl_load *load;
	void *io;
	uint32_t index;
	uint8_t state;
	bool dirty;
	uint32_t in_flight;
	uint32_t head; /* index in `meant` of the oldest request */
	uint64_t sent;
	uint64_t *meant; /* [depth]: intended send times */
	struct sl_load_reply reply;
	uint64_t retry_ns;
};

struct sl_load_io {
	int (*open)(struct sl_load *l, struct sl_load_conn *c);
	bool (*has_room)(struct sl_load *l, struct sl_load_conn *c, size_t len);
	/* Sends all bytes or none; false: retried in the next round. The bytes stay valid. */
	bool (*send)(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);
	void (*close)(struct sl_load *l, struct sl_load_conn *c);
	/* Reports events until `until_ns`. */
	int (*poll)(struct sl_load *l, uint64_t until_ns);
	void (*fini)(struct sl_load *l);
};

struct sl_load {
	const struct sl_load_options *o;
	struct sl_load_result *r;
	const struct sl_load_io *io;
	void *io_state;
	struct sl_load_tls *tls;
	struct sl_load_conn *conns;
	uint64_t *meant;
	uint8_t *request; /* repeated `depth` times */
	size_t request_len;
	uint64_t now_ns;
	uint64_t start_ns, measure_ns, end_ns;
	bool measuring;
	/* open loop */
	double next_ns;
	uint64_t *backlog; /* intended send times */
	uint32_t backlog_cap, backlog_len, backlog_head;
	uint32_t next_conn;
	struct sl_prng prng;
	uint64_t sequence;
};

/* Set up l->io. Return 0, or -errno and err; l->io->fini() follows, if set. */
int sl_load_sock_init(struct sl_load *l, struct sl_err *err);
int sl_load_xdp_init(struct sl_load *l, struct sl_err *err);

/* Called by l->io. */
void sl_load_connected(struct sl_load *l, struct sl_load_conn *c);
/* Takes received bytes, which TLS changes; may close c. */
void sl_load_data(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);
/* The peer closed c. Not called after io->close. */
void sl_load_closed(struct sl_load *l, struct sl_load_conn *c);
/* Called by TLS: handshake complete; decrypted bytes; error or end. */
void sl_load_opened(struct sl_load *l, struct sl_load_conn *c);
void sl_load_content(struct sl_load *l, struct sl_load_conn *c, struct sl_span bytes);
void sl_load_broken(struct sl_load *l, struct sl_load_conn *c, enum sl_load_error e);
/* Datagrams: the oldest request has ended; error < CNT: failed. */
void sl_load_finished(struct sl_load *l, struct sl_load_conn *c, int error);

#endif
