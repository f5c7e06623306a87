/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of a backend without a free descriptor; a path that two backends want. */
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "rpc/shm/shm.h"
#include "rpc/shm/socket.h"
#include "suite.h"

static struct sl_rpc_listener *l;
static struct rlimit before;
static int client;
static char dir[sizeof("/tmp/sl-unit-listen-XXXXXX")];

static void set_up(void)
{
	struct sl_rpc_listen_options opt = {.slots = 64, .bulk_ring_len = 1 << 20};
	char path[64];
	struct sockaddr_un sa;
	struct sl_err err;

	strcpy(dir, "/tmp/sl-unit-listen-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	opt.address = path;
	l = sl_shm_listen(&opt, &err);
	ck_assert_msg(l, "%s", err.text);
	l->accept_limit = 1;
	client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	ck_assert_int_ge(client, 0);
	ck_assert_int_eq(sl_shm_address(path, &sa), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	/* It is connected, by the backlog. */
	ck_assert_int_eq(connect(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
}

static void tear_down(void)
{
	l->ops->close(l);
	close(client);
	rmdir(dir);
}

FIXTURE(set_up, tear_down)

static void descriptors(rlim_t cnt)
{
	struct rlimit few = {cnt, before.rlim_max};

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
}

static bool wakes(void)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Waiting clients do not wake its loop again and again, and are accepted as soon as possible. */
TEST(the_backend_is_not_woken_in_vain)
{
	struct sl_rpc_hello h = {.magic = SL_RPC_HELLO_MAGIC}; /* version 0 */
	uint64_t now_ns = sl_now_ns(), later_ns;
	int stray;

	ck_assert(wakes());
	descriptors((rlim_t)client + 1); /* all are taken */
	ck_assert_ptr_null(l->ops->accept(l, now_ns));
	ck_assert(!wakes());
	later_ns = l->ops->next_ns(l);
	ck_assert_uint_gt(later_ns, now_ns);
	ck_assert_uint_le(later_ns, now_ns + SL_NS_PER_SEC);

	/* Neither before that nor, while there is none, then. */
	descriptors(before.rlim_cur);
	ck_assert_ptr_null(l->ops->accept(l, later_ns - 1));
	ck_assert_uint_eq(l->ops->next_ns(l), later_ns);
	descriptors((rlim_t)client + 1);
	ck_assert_ptr_null(l->ops->accept(l, later_ns));
	ck_assert(!wakes());
	ck_assert_uint_gt(l->ops->next_ns(l), later_ns);

	descriptors(before.rlim_cur);
	ck_assert_int_eq(sl_shm_hello_send(client, &h, -1), 0);
	ck_assert_ptr_null(l->ops->accept(l, l->ops->next_ns(l)));
	ck_assert_int_eq(sl_shm_hello_recv(client, &h, &stray), 0);
	ck_assert_uint_eq(h.status, SL_RPC_BAD_REQUEST);
}

static int soon_fd = -1;

/* Replaces that of libc: a socket listens when it is looked at for the second time. */
int usleep(useconds_t us)
{
	(void)us;
	return soon_fd < 0 ? 0 : listen(soon_fd, 1);
}

/* Two backends that start at one path: the second may look between bind() and listen() of the first. */
TEST(path_of_a_backend_that_is_about_to_listen_is_in_use)
{
	struct sl_rpc_listen_options opt = {.slots = 64, .bulk_ring_len = 1 << 20};
	char path[64], text[200] = "";
	struct sl_err err = {text, sizeof(text)};
	struct sockaddr_un sa;

	snprintf(path, sizeof(path), "%s/other", dir);
	opt.address = path;
	ck_assert_int_eq(sl_shm_address(path, &sa), 0);
	soon_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(soon_fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_ptr_null(sl_shm_listen(&opt, &err));
	ck_assert_ptr_nonnull(strstr(text, "in use"));
	ck_assert_int_eq(unlink(path), 0);
	close(soon_fd);
	soon_fd = -1;
}
