/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wireup: CREQ and CREP datagrams (wire/rpc_wire.h), which connect both kinds of connections. Both
 * ends prove that they have the same key.
 *
 *   client                                     listener
 *   CREQ (nonce, proof)                   -->
 *                                         <--  CREP (nonce, proof)
 *   first message of the connection (MAC) -->
 *
 * SIDR finds the listener's queue pair; the answer is cached per path until an exchange fails. The
 * CREQ's proof covers the target, which is not sent. Each request is accepted once (auth.h). The
 * CREP's proof covers both nonces. The first message proves that the client has received the reply;
 * the listener's end sends nothing before. A request must come from the GID that it names. EP_CHECK
 * asks for a connection in the same way; EP_REMOVED has a proof, too.
 *
 * Integers are little-endian.
 */
#ifndef SL_RPC_RDMA_WIREUP_H
#define SL_RPC_RDMA_WIREUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "rpc/psk.h"
#include "rpc/rdma/auth.h"
#include "rpc/rdma/device.h"
#include "rpc/rdma/path.h"
#include "rpc/rpc.h"
#include "wire/rpc_wire.h"

struct ah_entry;

/* The listener that a CREQ is for. */
struct wireup_target {
	uint8_t gid[16];
	uint64_t epoch;
	uint32_t qpn, reserved;
};
_Static_assert(sizeof(struct wireup_target) == 32, "it is part of a proof");

/* Sets the proof of a request to `to`. */
void wireup_creq_sign(const struct sl_psk *s, struct sl_wireup_creq *h,
		      const struct wireup_target *to);
/* Returns true if the request's proof is right. */
bool wireup_creq_verify(const struct sl_psk *s, const struct sl_wireup_creq *h,
			const struct wireup_target *to);
/* Sets the proof of a reply to `h`, own or verified. */
void wireup_crep_sign(const struct sl_psk *s, const struct sl_wireup_creq *h,
		      struct sl_wireup_crep *a);
/* Returns true if the reply's proof fits the key and request `h`. */
bool wireup_crep_verify(const struct sl_psk *s, const struct sl_wireup_creq *h,
			const struct sl_wireup_crep *a);

enum wireup_use { WIREUP_KEYS, WIREUP_ACK };
/* Derives secret bytes from the key, the use and the proof of a signed or verified CREP. */
void wireup_derive(const struct sl_psk *s, const struct sl_wireup_crep *a, enum wireup_use use,
		   uint8_t bytes[SL_PSK_MAC_LEN]);

/*
 * Fresh random bytes for a CREQ or CREP, which may be drawn ahead. One thread at a time. A forked
 * child repeats them, but with another epoch.
 */
struct wireup_nonce {
	uint8_t bytes[SL_WIREUP_NONCE_LEN];
	bool drawn;
};
/* Draws random bytes ahead, unless drawn. wireup_nonce_take() reports an error. */
void wireup_nonce_draw(struct wireup_nonce *n);
/* Takes `len` bytes, at most SL_WIREUP_NONCE_LEN. Returns 0 or -EIO. */
int wireup_nonce_take(struct wireup_nonce *n, uint8_t *to, size_t len);

/* Address, path and kind of a listener, without padding. */
struct wireup_dest {
	struct sockaddr_storage sa;
	struct rdma_path_spec path;
	uint64_t want; /* enum sl_wireup_want */
};
_Static_assert(sizeof(struct wireup_dest) == sizeof(struct sockaddr_storage) +
						     sizeof(struct rdma_path_spec) +
						     sizeof(uint64_t),
	       "it is compared by its bytes");

/* The dialing end of an exchange. */
struct wireup_dial {
	const struct sl_rpc_dial_options *opt;
	/* Called for each path: completes `creq` from `host`. Returns 0 or -errno. */
	int (*prepare)(struct wireup_dial *d);
	/* Undoes that if the path or the exchange fails; may be NULL. */
	void (*undo)(struct wireup_dial *d);
	void (*overlap)(void *arg); /* called while a reply is awaited; may be NULL */
	void *arg;                  /* for `overlap` */
	struct sl_wireup_creq creq; /* the caller fills in what it requests */
	/* set by the functions below */
	struct wireup_dest dest;
	struct sl_psk psk; /* the caller wipes it */
	uint64_t deadline_ns;
	struct sidr_result host;
	struct sl_wireup_crep crep;
	const char *why; /* more specific than the errno */
};

/* Reads address and key. Returns -1 and a line in err on failure. */
int wireup_dial_init(struct wireup_dial *d, const struct sl_rpc_dial_options *opt,
		     enum sl_wireup_want want, const char *address, struct sl_err *err);
/*
 * Exchanges CREQ and an authentic CREP. Returns 0 if the connection was granted; then `undo` is the
 * caller's. Returns -errno, and perhaps `why`. Blocks.
 */
int wireup_dial_run(struct wireup_dial *d);
/* See transport.h. */
enum sl_rpc_probe_result wireup_probe(const struct sl_rpc_dial_options *opt,
				      enum sl_wireup_want want, const char *address,
				      uint32_t number);

struct wireup_listener;
struct wireup_listener_ops {
	/* The queue pair is open on `local`. Returns 0 or -errno. */
	int (*opened)(struct wireup_listener *l);
	/* Called before the close, as device or address has gone. */
	void (*lost)(struct wireup_listener *l);
	/*
	 * Makes a connection for an authentic, new request, fills in and signs the reply, and
	 * returns SL_WIREUP_GRANTED; or returns why not. `n` leads to the client.
	 */
	enum sl_wireup_verdict (*grant)(struct wireup_listener *l, const struct sl_wireup_creq *h,
					struct sl_wireup_crep *a, struct ah_entry *n);
	/* Returns true if the connection that the request names exists. */
	bool (*has_conn)(struct wireup_listener *l, const struct sl_wireup_creq *h);
};

/* Answers SIDR queries and CREQs. One thread. */
struct wireup_listener {
	const struct wireup_listener_ops *ops;
	enum sl_wireup_want want;
	uint32_t rx_cnt, tx_cnt; /* of the queue pair */
	int epoll_fd;            /* the descriptors are added to it */
	bool opens_later;        /* the queue pair is opened by the first turn */
	struct sockaddr_storage sa;
	struct sl_psk psk;
	struct sidr_service *sidr; /* NULL: opened again at retry_ns */
	uint64_t retry_ns;
	unsigned retry_ms;
	struct ud_qp *qp; /* NULL: not open */
	struct rdma_local local;
	struct replay_filter replay;
	struct wireup_nonce next_nonce;
	bool more; /* requests are left, and no event will report them */
	_Atomic uint64_t refused;
};

/* Reads address and key, and listens. Returns -1 and a line in err on failure. */
int wireup_listener_init(struct wireup_listener *l, const char *address, const char *key_file,
			 struct sl_err *err);
/* Closes the queue pair, if any. */
void wireup_listener_close(struct wireup_listener *l);
/* Closes a failed device's queue pair; opens it a second later. */
void wireup_listener_fail(struct wireup_listener *l, uint64_t now_ns);
/* Also ends the SIDR service, and forgets the key. */
void wireup_listener_fini(struct wireup_listener *l);
/* Opens what is closed, at the present address, when due; answers SIDR queries. */
void wireup_listener_turn(struct wireup_listener *l, uint64_t now_ns);
/* Handles up to `max` (at most UD_POLL_MAX) requests. Returns their number or -EIO. */
int wireup_listener_poll(struct wireup_listener *l, unsigned max);
/* Handles some requests, then arms, or sets `more`. Returns false if the device has failed. */
bool wireup_listener_drain(struct wireup_listener *l);
/* Verifies a request that came from the GID that it names, and calls `handle`. */
void wireup_listener_handle(struct wireup_listener *l, const struct sl_wireup_creq *h);
/* Returns when to call wireup_listener_turn() without an event. */
uint64_t wireup_listener_next_ns(const struct wireup_listener *l);

#endif
