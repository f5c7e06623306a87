/* SPDX-License-Identifier: Apache-2.0 */
/* TCP events, for the lowest filter or the client. */
#include "core/client.h"

struct conn_upper {
	const struct sl_conn_user *up;
	void *user;
};

static struct conn_upper upper_of(void *handle)
{
	struct sl_client *cl = handle;
	struct sl_filter *f;

	if (!cl->filtered)
		return (struct conn_upper){&sl_client_events, cl};
	f = sl_filter_bottom(cl->filter);
	return (struct conn_upper){f->below_tells, f};
}

static bool add_filters(struct sl_core *c, struct sl_client *cl, const struct sl_conn_info *info)
{
	struct sl_filter *f = NULL;

	if (!c->filters.open(c->filters.arg, sl_client_stream(cl), info, &f))
		return false;
	if (!f)
		return true;
	f->up = &sl_client_events;
	f->user = cl;
	cl->filter = f;
	cl->filtered = true;
	if (f->talks)
		sl_client_await_filters(cl);
	return true;
}

static bool expects_proxy_header(struct sl_core *c, const struct sl_conn_info *info)
{
	return c->filters.expects_proxy_header &&
	       c->filters.expects_proxy_header(c->filters.arg, info);
}

static bool stands_for_many(void *app, uint16_t listener, const struct sl_addr *remote)
{
	return expects_proxy_header(app,
				    &(struct sl_conn_info){.peer = *remote, .listener = listener});
}

static void *on_accepted(void *app, struct sl_tcp_conn *conn, uint16_t listener,
			 const struct sl_addr *local, const struct sl_addr *remote)
{
	struct sl_core *c = app;
	struct sl_conn_info info = {.local = *local, .peer = *remote, .listener = listener};
	struct sl_client *cl;

	cl = sl_client_open(c, conn, &info, expects_proxy_header(c, &info));
	if (cl && c->filters.open && !add_filters(c, cl, &info)) {
		sl_client_events.closed(cl);
		return NULL;
	}
	return cl;
}

static size_t on_data(void *handle, struct sl_chunk *chunk)
{
	struct conn_upper u = upper_of(handle);

	return u.up->input(u.user, chunk);
}

static void on_fin(void *handle)
{
	struct conn_upper u = upper_of(handle);

	u.up->eof(u.user);
}

static void on_writable(void *handle)
{
	struct conn_upper u = upper_of(handle);

	u.up->writable(u.user);
}

static void on_closed(void *handle, enum sl_tcp_close_reason why)
{
	struct conn_upper u = upper_of(handle);

	(void)why;
	u.up->closed(u.user);
}

/* Frames queued in TCP count for the client's address. */
static void on_holds(void *handle, int32_t frames)
{
	const struct sl_client *cl = handle;

	sl_addr_quota_add_frames(&cl->core->quotas, sl_client_quota(cl), frames);
}

static bool on_full(void *handle)
{
	const struct sl_client *cl = handle;

	return !sl_addr_quota_may_queue(&cl->core->quotas, sl_client_quota(cl));
}

const struct sl_tcp_ops sl_client_tcp_ops = {
	.stands_for_many = stands_for_many,
	.accepted = on_accepted,
	.data = on_data,
	.fin = on_fin,
	.writable = on_writable,
	.closed = on_closed,
	.holds = on_holds,
	.full = on_full,
};
