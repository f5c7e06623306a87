/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of gateways for a server: callbacks of an SDK backend that make calls. */
#ifndef SL_ORIGIN_BACKEND_H
#define SL_ORIGIN_BACKEND_H

#include "origin/server.h"
#include "sluice/backend.h"

/* Sets o's callbacks and what they need. `proto` of s must be set; s must outlive the backend. */
void origin_backend_callbacks(struct sl_backend_options *o, struct origin_server *s);

/* Members of struct origin_owner that answer requests by the SDK. */
#define ORIGIN_BACKEND_REPLIES                                                                     \
	.reply = sl_reply, .reply_error = sl_reply_error, .reply_interim = sl_reply_interim,       \
	.send_continue = sl_stream_send_continue, .pause = sl_stream_pause,                        \
	.resume = sl_stream_resume

#endif
