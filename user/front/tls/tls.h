/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 as a filter on a byte stream (front/conn.h), for the connections of one worker:
 *
 *   transport --> [ handshake.c: handshake bytes ] --> handshake threads --> keys
 *   transport --> [ rx.c: records decrypted in place ] --> front
 *   transport <-- [ tx.c: records encrypted in place ] <-- front
 *
 * A record is sealed when the frame is full, another connection writes, or output is built. No
 * plaintext is delivered before its tag is verified.
 *
 * Not supported: TLS 1.2 and older, 0-RTT, renegotiation, post-handshake client authentication.
 */
#ifndef SL_FRONT_TLS_TLS_H
#define SL_FRONT_TLS_TLS_H

#include "front/conn.h"
#include "front/tls/server.h"

struct sl_tls;

/* Causes of an end: alert (RFC 8446 6.2; 255: none), metric label, help text. */
#define SL_TLS_ENDS(X)                                                                             \
	X(PEER, 255, "peer_alert", "the client sent an alert")                                     \
	X(GONE, 255, "gone", "the client closed or was too slow")                                  \
	X(SHED, 255, "shed", "too many handshakes are waiting")                                    \
	X(PLAIN, 255, "plain_http", "plain HTTP, answered with 400")                               \
	X(NO_MEMORY, 255, "no_memory", "no free buffers")                                          \
	X(SLOW_RECORD, 255, "slow_record", "incomplete record evicted from a full buffer")         \
	X(TRUNCATED, 255, "truncated", "connection ended without close_notify")                    \
	X(TOO_LARGE, 255, "too_large", "client certificates above 64 KiB")                         \
	X(VERSION, 70, "protocol_version", "TLS 1.2 or older")                                     \
	X(NO_ALPN, 120, "no_application_protocol", "neither h2 nor http/1.1 offered")              \
	X(NO_CERTIFICATE, 116, "certificate_required", "no client certificate sent")               \
	X(UNKNOWN_CA, 48, "unknown_ca", "client certificate of an unknown issuer")                 \
	X(BAD_CERTIFICATE, 42, "bad_certificate", "unusable client certificate")                   \
	X(EXPIRED, 45, "certificate_expired", "expired client certificate")                        \
	X(HANDSHAKE_FAILURE, 40, "handshake_failure", "no common parameters")                      \
	X(ILLEGAL, 47, "illegal_parameter", "field out of range")                                  \
	X(DECODE, 50, "decode_error", "malformed message")                                         \
	X(DECRYPT, 51, "decrypt_error", "wrong signature or Finished")                             \
	X(UNEXPECTED, 10, "unexpected_message", "unexpected message, or too many")                 \
	X(BAD_RECORD, 20, "bad_record_mac", "record with a wrong tag")                             \
	X(OVERFLOW, 22, "record_overflow", "record too long")                                      \
	X(INTERNAL, 80, "internal_error", "internal error of the gateway")                         \
	X(OTHER, 255, "other", "another reason")

enum sl_tls_end {
#define X(name, alert, metric, help) SL_TLS_END_##name,
	SL_TLS_ENDS(X)
#undef X
		SL_TLS_END_CNT
};

struct sl_tls_stats {
	uint64_t full, resumed;
	uint64_t ends[SL_TLS_END_CNT]; /* incomplete handshakes, broken connections */
	uint64_t waited_ns;
	uint64_t steps;
	uint64_t records_in, records_out;
	uint64_t key_updates;
	uint32_t handshakes;
	uint32_t queued;
	uint32_t conn_bytes;
};

struct sl_tls_config {
	uint32_t max_conns;
	struct sl_umem *umem;
	const uint64_t *now_ns;
	/*
	 * Passes a handshake to a thread; SL_TLS_LEFT: only to be freed. False: the queue is full.
	 */
	bool (*submit)(void *arg, struct sl_tls_hs *hs);
	/* Calls sl_tls_result() for returned handshakes. Returns their number. */
	unsigned (*collect)(void *arg, struct sl_tls *t);
	void *arg;
};

/* Returns the state of one worker, or NULL. */
struct sl_tls *sl_tls_create(const struct sl_tls_config *cfg);
/* Frees t. All connections must be closed and all handshakes returned. */
void sl_tls_destroy(struct sl_tls *t);

/* Functions of sl_filter_maker; arg is the struct sl_tls. */
bool sl_tls_open_conn(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		      struct sl_filter **top);
unsigned sl_tls_poll(void *arg);
uint64_t sl_tls_next_ns(void *arg);
void sl_tls_flush(void *arg);

/* References the servers of a configuration, and drops earlier ones. */
void sl_tls_set_listeners(struct sl_tls *t, const struct sl_config *cfg);
/* Continues or frees a handshake that a thread returned. */
void sl_tls_result(struct sl_tls *t, struct sl_tls_hs *hs);
/* Returns how many handshakes threads have. */
uint32_t sl_tls_queued(const struct sl_tls *t);
/* Copies the counters. */
void sl_tls_stats(const struct sl_tls *t, struct sl_tls_stats *out);

#endif
