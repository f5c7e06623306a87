/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 as a filter on a byte stream (front/conn.h), for the connections of one worker:
 *
 *   transport --> [ hs.c: bytes of the handshake ] --> handshake threads --> keys
 *   transport --> [ in.c: records opened in place ] --> front
 *   transport <-- [ out.c: records sealed in place ] <-- front
 *
 * What a front writes is put where it leaves, behind room for a record's head, and is sealed when the
 * frame is full, when another connection writes, or before output is made: a head and its body are
 * one record. No plaintext goes up before its tag is right.
 *
 * Not supported: TLS 1.2 and older, 0-RTT, renegotiation, client certificates after the handshake.
 */
#ifndef SL_FRONT_TLS_TLS_H
#define SL_FRONT_TLS_TLS_H

#include "front/conn.h"
#include "front/tls/server.h"

struct sl_tls;

/*
 * How a handshake that was not finished ended, or a connection that was: the alert of RFC 8446 6.2
 * (ours; TLS_NO_ALERT: none was sent), name of the counter, for people.
 */
#define SL_TLS_ENDS(X)                                                                             \
	X(PEER, 255, "peer_alert", "the client sent an alert")                                     \
	X(GONE, 255, "gone", "the client left, or was too slow")                                   \
	X(SHED, 255, "shed", "too many handshakes wait already")                                   \
	X(PLAIN, 255, "plain_http", "HTTP without TLS: 400")                                       \
	X(NO_MEMORY, 255, "no_memory", "no buffers were left")                                     \
	X(SLOW_RECORD, 255, "slow_record", "part of a record, when others needed its memory")      \
	X(TRUNCATED, 255, "truncated", "the connection ended without close_notify")                \
	X(TOO_LARGE, 255, "too_large", "client certificates above 64 KiB")                         \
	X(VERSION, 70, "protocol_version", "TLS 1.2 or older")                                     \
	X(NO_ALPN, 120, "no_application_protocol", "neither h2 nor http/1.1 is spoken")            \
	X(NO_CERTIFICATE, 116, "certificate_required", "the client has shown no certificate")      \
	X(UNKNOWN_CA, 48, "unknown_ca", "client certificate of an unknown issuer")                 \
	X(BAD_CERTIFICATE, 42, "bad_certificate", "client certificate that cannot be used")        \
	X(EXPIRED, 45, "certificate_expired", "client certificate that has ended")                 \
	X(HANDSHAKE_FAILURE, 40, "handshake_failure", "nothing in common")                         \
	X(ILLEGAL, 47, "illegal_parameter", "a field out of its range")                            \
	X(DECODE, 50, "decode_error", "a message that cannot be read")                             \
	X(DECRYPT, 51, "decrypt_error", "a signature or Finished that is wrong")                   \
	X(UNEXPECTED, 10, "unexpected_message", "a message out of its turn, or too many of it")    \
	X(BAD_RECORD, 20, "bad_record_mac", "a record whose tag is wrong")                         \
	X(OVERFLOW, 22, "record_overflow", "a record above the limit")                             \
	X(INTERNAL, 80, "internal_error", "a fault of ours")                                       \
	X(OTHER, 255, "other", "another reason")

enum sl_tls_end {
#define X(name, alert, metric, help) SL_TLS_END_##name,
	SL_TLS_ENDS(X)
#undef X
		SL_TLS_END_CNT
};

struct sl_tls_stats {
	uint64_t full, resumed;        /* handshakes that were finished */
	uint64_t ends[SL_TLS_END_CNT]; /* that were not, and connections that broke */
	uint64_t waited_ns;            /* of all steps, in the queues of the threads */
	uint64_t steps;                /* of handshakes, made by threads */
	uint64_t records_in, records_out;
	uint64_t key_updates;
	uint32_t handshakes; /* under way */
	uint32_t queued;     /* of them, those that a thread has */
	uint32_t conn_bytes; /* what TLS adds to a connection */
};

struct sl_tls_config {
	uint32_t max_conns;
	struct sl_umem *umem;
	const uint64_t *now_ns;
	/* Gives a handshake to a thread, or, `ended`, only its memory to free; false: it has no room. */
	bool (*submit)(void *arg, struct sl_tls_hs *hs);
	/* Calls sl_tls_result() for those that came back; returns how many. NULL: who submits does. */
	unsigned (*collect)(void *arg, struct sl_tls *t);
	void *arg;
};

/* NULL and errno. */
struct sl_tls *sl_tls_create(const struct sl_tls_config *cfg);
/* All connections must be gone, and all handshakes back. */
void sl_tls_destroy(struct sl_tls *t);

/* For sl_filter_maker, with the struct sl_tls as arg. */
bool sl_tls_open_conn(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		      struct sl_filter **top);
unsigned sl_tls_poll(void *arg);
uint64_t sl_tls_next_ns(void *arg);
void sl_tls_flush(void *arg);

/* Which listeners have TLS from now on, by index; connections that exist keep what they have. */
void sl_tls_set_listeners(struct sl_tls *t, const struct sl_config *cfg);
/* A thread has made a step. */
void sl_tls_result(struct sl_tls *t, struct sl_tls_hs *hs);
/* Handshakes that a thread has. */
uint32_t sl_tls_queued(const struct sl_tls *t);
void sl_tls_stats(const struct sl_tls *t, struct sl_tls_stats *out);

#endif
