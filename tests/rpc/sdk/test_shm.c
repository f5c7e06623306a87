/* SPDX-License-Identifier: Apache-2.0 */
/* Hostility that only shared memory and its socket allow. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/rand.h"
#include "rpc_harness.h"
#include "rpc/shm/shm.h"
#include "rpc/shm/socket.h"
#include "suite.h"

static char path[64], endpoint[80];

static void setup(void)
{
	snprintf(path, sizeof(path), "/tmp/sl-shm-test-%d.sock", (int)getpid());
	snprintf(endpoint, sizeof(endpoint), "shm://%s", path);
}

static void teardown(void)
{
	unlink(path);
}

static void echo(void *arg, struct sl_batch *batch)
{
	(void)arg;
	for (unsigned i = 0; i < batch->count; i++) {
		struct sl_request_view *rq = batch->requests[i];

		sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
	}
}

static struct backend_proc start_echo(void)
{
	return backend_start(&(struct sl_backend_options){.listen = endpoint, .on_batch = echo});
}

static void check_served(void)
{
	struct gateway g;
	struct call c;

	gw_open(&g, endpoint);
	call_init(&c, 8);
	ck_assert_int_eq(
		gw_send(&g, &c, sl_span_of(NULL, 0), sl_span_str("alive"), 0, SL_CLASS_LATENCY), 0);
	gw_until(&g, g.batches_done == 1);
	ck_assert(c.done);
	call_fini(&c);
	gw_close(&g);
}

static void scribble(struct sl_shm *s, struct sl_prng *rng, size_t from, size_t len)
{
	uint8_t *map = s->map;

	for (unsigned i = 0; i < 200; i++)
		map[from + sl_prng_below(rng, len)] = (uint8_t)sl_prng_u64(rng);
}

FIXTURE(setup, teardown)

/* Random bytes everywhere in the memory, with right slot numbers so that they are looked at. */
TEST(scribbled_memory_ends_its_channel_only)
{
	struct backend_proc p = start_echo();
	struct sl_prng rng;

	sl_prng_seed(&rng, 11);
	for (unsigned round = 0; round < 60; round++) {
		struct sl_transport *t = gw_dial(endpoint, 32, 64 << 10);
		struct sl_shm *s = (struct sl_shm *)t;

		for (unsigned i = 0; i < 20; i++) {
			struct sl_shm_slot *slot = (void *)sl_shm_slot_at(s->tx_slots, s->mask, i);

			slot->header = (struct sl_rpc_header){
				.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
				.flags = SL_RPC_FIRST | SL_RPC_LAST | SL_RPC_BATCH,
				.count = 1,
				.fragment_len = 1000,
				.total_or_offset = 1000,
				.id = sl_rpc_boot_epoch() << 48 | i,
			};
			scribble(s, &rng, (size_t)((uint8_t *)slot - (uint8_t *)s->map), 48);
			atomic_store(&slot->seq, i + 1);
			scribble(s, &rng, 0, s->map_len);
			sl_shm_wake_peer(s);
			(void)send(t->fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		}
		sl_rpc_dial_drop(t);
		if (round % 20 == 0)
			check_served();
	}
	check_served();
	backend_term(p);
}

/* The bytes change while the other side reads them: a second thread of the liar flips them. */
TEST(bytes_that_change_while_read_do_no_harm)
{
	struct backend_proc p = start_echo(), flipper;
	struct sl_transport *t = gw_dial(endpoint, 64, 64 << 10);
	struct sl_shm *s = (struct sl_shm *)t;
	uint64_t until = sl_now_ns() + 300 * SL_NS_PER_MS;
	struct {
		struct sl_rpc_entry e;
		uint8_t body[200];
	} m = {.e = {.len = 200}};

	flipper.pid = fork();
	if (!flipper.pid) {
		alarm(20);
		for (uint32_t i = 0;; i++) {
			struct sl_shm_slot *slot = (void *)sl_shm_slot_at(s->tx_slots, s->mask, i);
			volatile uint8_t *raw = (volatile uint8_t *)slot;

			raw[8 + i / 7 % 60] ^= (uint8_t)(1u << i % 8);
			raw[8 + i / 7 % 60] ^= (uint8_t)(1u << i % 8);
		}
	}
	while (sl_now_ns() < until) {
		struct sl_rpc_header h = {
			.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
			.flags = SL_RPC_FIRST | SL_RPC_LAST | SL_RPC_BATCH,
			.count = 1,
			.fragment_len = 224,
			.total_or_offset = 224,
			.id = sl_rpc_boot_epoch() << 48 | ++m.e.id,
		};
		struct sl_span span = sl_span_of(&m, 224);
		struct sl_message in;

		(void)t->ops->post(t, &h, &span, 1, 0);
		t->ops->flush(t);
		(void)t->ops->check(t);
		if (t->ops->poll(t, &in, 1) == 1) {
			t->ops->release(t, &in);
		} else if (s->gone) {
			sl_rpc_dial_drop(t);
			t = gw_dial(endpoint, 64, 64 << 10);
			backend_kill(flipper);
			flipper.pid = 0;
			s = (struct sl_shm *)t;
			break;
		}
	}
	if (flipper.pid)
		backend_kill(flipper);
	sl_rpc_dial_drop(t);
	check_served();
	backend_term(p);
}

static int raw_connect(void)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;

	ck_assert_int_eq(sl_shm_address(path, &sa), 0);
	for (int i = 0; i < 5000; i++) {
		if (connect(sock, (struct sockaddr *)&sa, sizeof(sa)) == 0)
			return sock;
		usleep(1000);
	}
	ck_abort_msg("cannot connect: %s", strerror(errno));
	return -1;
}

static unsigned fd_cnt(pid_t pid)
{
	char dir[32];
	unsigned n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)pid);
	d = opendir(dir);
	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Connections that say nothing, or nonsense, do not keep others out, and leave nothing behind. */
TEST(silent_and_garbled_peers_do_not_block_others)
{
	struct backend_proc p = start_echo();
	int sock[60];
	unsigned fds;

	check_served();
	fds = fd_cnt(p.pid);
	for (unsigned i = 0; i < 20; i++) { /* until that connection is gone */
		unsigned n = fd_cnt(p.pid);

		fds = n < fds ? n : fds;
		usleep(10000);
	}

	for (unsigned i = 0; i < 60; i++) {
		struct sl_rpc_hello h = {.magic = SL_RPC_HELLO_MAGIC,
					 .version = SL_RPC_VERSION,
					 .slots = 64,
					 .bulk_len = 64 << 10};

		sock[i] = raw_connect();
		if (i % 6 == 1)
			(void)send(sock[i], "garbage", 7, MSG_NOSIGNAL);
		h.version = i % 6 == 2 ? 9 : h.version;
		h.slots = i % 6 == 3 ? 63 : h.slots;
		h.bulk_len = i % 6 == 4 ? 0 : h.bulk_len;
		if (i % 6 > 1 && i % 6 < 5)
			(void)sl_shm_hello_send(sock[i], &h, -1);
		if (i % 20 == 19)
			check_served();
	}
	for (unsigned i = 0; i < 60; i++)
		close(sock[i]);
	check_served();
	for (unsigned i = 0; i < 500 && fd_cnt(p.pid) > fds; i++)
		usleep(10000);
	ck_assert_uint_le(fd_cnt(p.pid), fds);
	backend_term(p);
}

/* Counters of a backend in this process outlive the socket. */
TEST(a_backend_counts_refused_connections)
{
	struct sl_backend_options opt = {
		.listen = endpoint, .on_batch = echo, .inline_handler = true};
	struct sl_rpc_hello old = {.magic = SL_RPC_HELLO_MAGIC, .version = SL_RPC_VERSION - 1};
	struct sl_backend *b = sl_backend_open(&opt, NULL, 0);
	struct sl_backend_stats st = {.size = sizeof(st)};
	int sock[2];

	ck_assert_ptr_nonnull(b);
	sock[0] = raw_connect();
	ck_assert_int_eq(send(sock[0], "garbage", 7, MSG_NOSIGNAL), 7);
	sock[1] = raw_connect();
	ck_assert_int_eq(sl_shm_hello_send(sock[1], &old, -1), 0);
	for (unsigned i = 0; i < 100; i++)
		(void)sl_backend_poll(b, 1000);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.refused, 2);
	sl_backend_stop(b);
	(void)sl_backend_run(b);
	sl_backend_stats(b, &st);
	ck_assert_uint_eq(st.refused, 2);
	sl_backend_close(b);
	close(sock[0]);
	close(sock[1]);
}

TEST(a_hello_of_another_version_is_refused_with_ours)
{
	struct backend_proc p = start_echo();
	struct sl_rpc_hello h = {.magic = SL_RPC_HELLO_MAGIC,
				 .version = SL_RPC_VERSION - 1,
				 .slots = 64,
				 .bulk_len = 64 << 10};
	int sock = raw_connect(), memfd = -1, rc;

	ck_assert_int_eq(sl_shm_hello_send(sock, &h, -1), 0);
	for (unsigned i = 0; (rc = sl_shm_hello_recv(sock, &h, &memfd)) == -EAGAIN && i < 500; i++)
		usleep(10000);
	ck_assert_int_eq(rc, 0);
	ck_assert_uint_eq(h.status, SL_RPC_BAD_REQUEST);
	ck_assert_uint_eq(h.version, SL_RPC_VERSION);
	ck_assert_int_eq(memfd, -1);
	close(sock);
	backend_term(p);
}

/* --- a listener that lies to the dialer --- */

enum listener_lie { NO_MEMORY, NOT_SEALED, TOO_SHORT, NO_MEMFD, LARGER, GARBAGE, REFUSES, LIES };

static int lying_memory(enum listener_lie lie, const struct sl_shm_geometry *g)
{
	int fd;

	switch (lie) {
	case NO_MEMORY: return -1;
	case NO_MEMFD: return open("/dev/zero", O_RDWR);
	case NOT_SEALED:
	case TOO_SHORT:
		fd = memfd_create("lie", MFD_ALLOW_SEALING);
		(void)!ftruncate(fd, (off_t)sl_shm_len(g) - (lie == TOO_SHORT ? 4096 : 0));
		if (lie == TOO_SHORT)
			(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
		return fd;
	default: return sl_shm_memory_create(g);
	}
}

static _Noreturn void lying_listener(enum listener_lie lie)
{
	struct sockaddr_un sa;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), sock, stray;
	struct sl_rpc_hello h;
	struct sl_shm_geometry g;
	char early[sizeof(sa.sun_path)];

	/* A process that sees the socket finds it listening. */
	alarm(60);
	snprintf(early, sizeof(early), "%s.early", path);
	if (sl_shm_address(early, &sa) || bind(listener, (struct sockaddr *)&sa, sizeof(sa)) ||
	    listen(listener, 4) || rename(early, path))
		_exit(3);
	sock = accept(listener, NULL, NULL);
	while (sl_shm_hello_recv(sock, &h, &stray) == -EAGAIN)
		usleep(100);
	if (lie == REFUSES)
		_exit(0);
	h.bulk_len *= lie == LARGER ? 2 : 1;
	g = (struct sl_shm_geometry){.slots = h.slots, .bulk_len = h.bulk_len};
	if (lie == GARBAGE)
		(void)send(sock, "what?", 5, 0);
	else
		(void)sl_shm_hello_send(sock, &h, lying_memory(lie, &g));
	for (;;)
		pause();
}

TEST_EACH(invalid_answer_of_a_listener_is_refused, LIES)
{
	struct backend_proc p = {.pid = fork()};
	struct sl_rpc_dial_options opt = {
		.endpoint = endpoint, .bulk_ring_len = 64 << 10, .slots = 64, .timeout_ms = 5000};
	struct sl_err err = SL_ERR(256);

	if (!p.pid)
		lying_listener((enum listener_lie)_i);
	while (access(path, F_OK))
		usleep(1000);
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_msg(strstr(err.text, _i == REFUSES ? "refused" : "is this a sluice backend?") !=
			      NULL,
		      "%s", err.text);
	backend_kill(p);
}

/* A hello with so many descriptors. */
static void say_with(int sock, int cnt)
{
	struct sl_rpc_hello h = {.magic = SL_RPC_HELLO_MAGIC};
	struct iovec iov = {.iov_base = &h, .iov_len = sizeof(h)};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = CMSG_SPACE((size_t)cnt * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)cnt * sizeof(int));
	for (int i = 0; i < cnt; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &sock, sizeof(sock));
	ck_assert_int_eq(sendmsg(sock, &msg, 0), sizeof(h));
}

/* Otherwise a peer could fill the descriptor table of a process that queries it repeatedly. */
TEST(only_one_descriptor_is_taken_of_a_hello)
{
	int pair[2], memfd;
	struct sl_rpc_hello h;
	unsigned before;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	before = fd_cnt(getpid());
	for (int cnt = 1; cnt <= 8; cnt++) {
		say_with(pair[0], cnt);
		ck_assert_int_eq(sl_shm_hello_recv(pair[1], &h, &memfd), 0);
		if (memfd >= 0)
			close(memfd);
		ck_assert_uint_eq(fd_cnt(getpid()), before);
	}
	close(pair[0]);
	close(pair[1]);
}

/* No answer comes: the wait is bounded. */
TEST(dialling_without_an_answer_times_out)
{
	struct backend_proc p = start_echo();
	struct sl_rpc_dial_options opt = {
		.endpoint = endpoint, .bulk_ring_len = 64 << 10, .slots = 64, .timeout_ms = 50};
	struct sl_err err = SL_ERR(256);

	check_served();
	backend_pause(p);
	ck_assert_ptr_null(sl_rpc_dial(&opt, &err));
	ck_assert_msg(strstr(err.text, "no answer in time") != NULL, "%s", err.text);
	kill(p.pid, SIGCONT);
	check_served();
	backend_term(p);
}

/* Another user may not connect, whatever the mode of the file. */
TEST(another_user_may_not_connect)
{
	struct backend_proc p = start_echo(), stranger;
	int status;

	check_served();
	stranger.pid = fork();
	if (!stranger.pid) {
		struct sl_rpc_dial_options opt = {.endpoint = endpoint,
						  .bulk_ring_len = 64 << 10,
						  .slots = 64,
						  .timeout_ms = 5000};
		struct sl_err err = SL_ERR(256);

		if (setgid(65534) || setuid(65534))
			_exit(2);
		if (sl_rpc_dial(&opt, &err) || !strstr(err.text, "refused"))
			_exit(1);
		_exit(0);
	}
	status = backend_wait(stranger);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	check_served();
	backend_term(p);
}

struct account_order {
	struct backend_order order;
	uid_t uid;
};

static void backend_as(const void *arg)
{
	const struct account_order *a = arg;

	if (a->uid && (setgid(a->uid) || setuid(a->uid)))
		_exit(2);
	backend_main(&a->order);
}

/* Listens as `uid` in a directory of `owner`, where all may write; what a dialer says of it. */
static void dial_listener_of(uid_t uid, uid_t owner, bool trusted)
{
	struct sl_rpc_dial_options opt = {
		.endpoint = endpoint, .bulk_ring_len = 64 << 10, .slots = 64, .timeout_ms = 5000};
	char dir[] = "/tmp/sl-shm-XXXXXX";
	struct sl_err err = SL_ERR(256);
	struct account_order a = {.order.opt.on_batch = echo, .uid = uid};
	struct backend_proc p;
	struct sl_transport *t;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert(chmod(dir, 0777) == 0 && chown(dir, owner, 0) == 0);
	snprintf(path, sizeof(path), "%s/a.sock", dir);
	snprintf(endpoint, sizeof(endpoint), "shm://%s", path);
	snprintf(a.order.listen, sizeof(a.order.listen), "%s", endpoint);
	p.pid = harness_spawn(backend_as, &a, sizeof(a));
	do
		t = sl_rpc_dial(&opt, &err);
	while (!t && strstr(err.text, "is the backend running") && !usleep(1000));
	ck_assert_msg((t != NULL) == trusted, "uid %d in a directory of %d: %s", (int)uid,
		      (int)owner, err.text);
	if (t)
		sl_rpc_dial_drop(t);
	else
		ck_assert_msg(strstr(err.text, "the listener has another user") != NULL, "%s",
			      err.text);
	backend_term(p);
	unlink(path);
	rmdir(dir);
}

/* In a folder that all may write, a socket of another account is not the backend's. */
TEST(somebody_elses_socket_is_not_the_backends)
{
	dial_listener_of(0, 0, true);
	dial_listener_of(65534, 65534, true);
	dial_listener_of(65534, 0, false);
	dial_listener_of(65534, 1234, false);
}

/* A file that is no socket is never removed. */
TEST(a_file_that_is_no_socket_stays)
{
	struct sl_backend_options opt = {.listen = endpoint, .on_batch = echo};
	char err[256] = "";
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	close(fd);
	ck_assert_ptr_null(sl_backend_open(&opt, err, sizeof(err)));
	ck_assert_ptr_nonnull(strstr(err, "is not a socket"));
	ck_assert_int_eq(access(path, F_OK), 0);
	opt.listen = "shm:///tmp/no/such/directory/x.sock";
	ck_assert_ptr_null(sl_backend_open(&opt, err, sizeof(err)));
	ck_assert_ptr_nonnull(strstr(err, "no such directory"));
}
