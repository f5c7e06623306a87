/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the file system and to other processes under Landlock and the limits; in children. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "sandbox/sandbox.h"
#include "suite.h"

static char in[64], out[64];

static void make(char *dir, const char *pattern)
{
	char file[80];
	int fd;

	strcpy(dir, pattern);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chmod(dir, 0777), 0);
	snprintf(file, sizeof(file), "%s/f", dir);
	fd = open(file, O_CREAT | O_WRONLY, 0666);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0666), 0);
	close(fd);
}

static void remove_both(void)
{
	char file[80];

	for (int i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), "%s/f", i ? in : out);
		unlink(file);
		rmdir(i ? in : out);
	}
}

static void set_up(void)
{
	make(in, "/tmp/sl-in-XXXXXX");
	make(out, "/tmp/sl-out-XXXXXX");
}

/* errno of an open, 0 if it works. */
static int try_open(const char *dir, const char *name, int flags)
{
	char file[80];
	int fd;

	snprintf(file, sizeof(file), "%s/%s", dir, name);
	fd = open(file, flags, 0600);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_listen(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

	rc = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ? errno : 0;
	close(fd);
	return rc;
}

#define EXPECT(want, what)                                                                         \
	do {                                                                                       \
		int found = (what);                                                                \
		if (found != (want)) {                                                             \
			fprintf(stderr, "%s: %s, not %s\n", #what, strerror(found),                \
				strerror(want));                                                   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void run_confined(const char *user, enum sl_sandbox_use use, void (*look)(int abi))
{
	const struct sl_sandbox_place places[] = {{in, use}, {"/no/such/place", SL_SANDBOX_READ}};
	struct sl_sandbox_options opt = {.user = user, .places = places, .place_cnt = 2};
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1u), status;
	struct sl_err err = SL_ERR(256);
	pid_t pid;

	ck_assert_msg(abi >= 1, "this kernel has no Landlock");
	pid = fork();
	if (!pid) {
		if (sl_sandbox_enter(&opt, &err)) {
			fprintf(stderr, "%s\n", err.text);
			_exit(2);
		}
		look(abi);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "status %x", status);
}

static void look_reading(int abi)
{
	struct rlimit core;

	EXPECT(0, try_open(in, "f", O_RDONLY));
	EXPECT(EACCES, try_open(in, "f", O_WRONLY));
	EXPECT(EACCES, try_open(in, "g", O_WRONLY | O_CREAT));
	EXPECT(EACCES, try_open(out, "f", O_RDONLY));
	EXPECT(EACCES, try_open("/etc", "passwd", O_RDONLY));
	EXPECT(EACCES, try_open("/proc", "self/mem", O_RDWR));
	if (abi >= 4)
		EXPECT(EACCES, try_listen());
	if (abi >= 6)
		EXPECT(EPERM, kill(getppid(), 0) ? errno : 0);
	EXPECT(0, prctl(PR_GET_DUMPABLE));
	EXPECT(1, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	EXPECT(0, getrlimit(RLIMIT_CORE, &core) || core.rlim_max);
}

FIXTURE(set_up, remove_both)

TEST(a_folder_to_read)
{
	run_confined("root", SL_SANDBOX_READ, look_reading);
}

static void look_as_nobody(int abi)
{
	look_reading(abi);
	EXPECT(65534, (int)geteuid());
	EXPECT(65534, (int)getgid());
	EXPECT(EPERM, setuid(0) ? errno : 0);
}

TEST(another_user_sees_what_it_may_see)
{
	run_confined("nobody", SL_SANDBOX_READ, look_as_nobody);
}

/* First all of /tmp and /etc, then what the resolver reads and one folder. */
static void look_narrowed(void)
{
	struct sl_sandbox_place places[1 + SL_SANDBOX_RESOLVER_CNT] = {{in, SL_SANDBOX_READ}};
	struct sl_err err = SL_ERR(256);

	EXPECT(0, try_open("/etc", "passwd", O_RDONLY));
	memcpy(places + 1, sl_sandbox_resolver, sizeof(sl_sandbox_resolver));
	EXPECT(0, -sl_sandbox_narrow(places, SL_ARRAY_LEN(places), &err));
	EXPECT(0, try_open(in, "f", O_RDONLY));
	EXPECT(EACCES, try_open(out, "f", O_RDONLY));
	EXPECT(EACCES, try_open("/etc", "passwd", O_RDONLY));
	EXPECT(EACCES, try_open("/etc", "", O_RDONLY | O_DIRECTORY));
	EXPECT(0, try_open("/etc", "nsswitch.conf", O_RDONLY));
	EXPECT(0, try_open("/etc", "hosts", O_RDONLY));
}

TEST(narrowed_process_reads_the_files_of_the_resolver_only)
{
	static const struct sl_sandbox_place places[] = {{"/tmp", SL_SANDBOX_READ},
							 {"/etc", SL_SANDBOX_READ}};
	struct sl_sandbox_options opt = {.user = "root", .places = places, .place_cnt = 2};
	struct sl_err err = SL_ERR(256);
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (sl_sandbox_enter(&opt, &err))
			_exit(2);
		look_narrowed();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "status %x", status);
}

static void look_removing(int abi)
{
	char file[80];

	(void)abi;
	EXPECT(EACCES, try_open(in, "f", O_RDONLY));
	snprintf(file, sizeof(file), "%s/f", out);
	EXPECT(EACCES, unlink(file) ? errno : 0);
	snprintf(file, sizeof(file), "%s/f", in);
	EXPECT(0, unlink(file) ? errno : 0);
}

TEST(a_folder_to_remove_from)
{
	run_confined("root", SL_SANDBOX_REMOVE, look_removing);
}

TEST(no_such_account)
{
	struct sl_sandbox_options opt = {.user = "no-such-account"};
	struct sl_err err = SL_ERR(256);
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(sl_sandbox_enter(&opt, &err) != -ENOENT ||
		      !strstr(err.text, "no such account"));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

TEST(folders_of_files)
{
	static const char *const cases[][2] = {{"/etc/sluice/x.conf", "/etc/sluice/"},
					       {"/x.conf", "/"},
					       {"x.conf", "."},
					       {"a/b", "a/"}};
	char folder[32];

	for (size_t i = 0; i < SL_ARRAY_LEN(cases); i++) {
		sl_sandbox_folder(cases[i][0], folder, sizeof(folder));
		ck_assert_str_eq(folder, cases[i][1]);
	}
}
