/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of agents, while another gateway on the host removes those of the dead. */
#include "agent/keeper.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

enum { FOLDERS = 3000, SWEEPERS = 4 };

static pid_t sweep_for_ever(void)
{
	pid_t parent = getpid(), child = fork();

	while (child == 0 && getppid() == parent)
		sl_keeper_sweep();
	if (child == 0)
		_exit(0);
	return child;
}

/* Each is of its own, has the lock, and stays until that is given up. */
TEST(a_folder_is_there_while_other_gateways_sweep)
{
	char folder[SL_KEEPER_FOLDER_LEN], text[200];
	struct sl_err err = {text, sizeof(text)};
	pid_t sweepers[SWEEPERS];

	for (int i = 0; i < SWEEPERS; i++)
		sweepers[i] = sweep_for_ever();
	for (int i = 0; i < FOLDERS; i++) {
		struct stat at, by_name;
		int fd = sl_keeper_folder_make("nobody", folder, &err);

		ck_assert_msg(fd >= 0, "folder %d: %s", i, text);
		ck_assert_int_eq(fstat(fd, &at), 0);
		ck_assert_msg(stat(folder, &by_name) == 0, "folder %d has gone", i);
		ck_assert(at.st_ino == by_name.st_ino && (at.st_mode & 077) == 0 && at.st_uid != 0);
		close(fd);
	}
	for (int i = 0; i < SWEEPERS; i++) {
		ck_assert_int_eq(kill(sweepers[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(sweepers[i], NULL, 0), sweepers[i]);
	}
	sl_keeper_sweep();
	ck_assert_int_ne(access(folder, F_OK), 0);
}

TEST(an_account_that_nobody_has_is_an_error)
{
	char folder[SL_KEEPER_FOLDER_LEN], text[200] = "";
	struct sl_err err = {text, sizeof(text)};

	ck_assert_int_eq(sl_keeper_folder_make("no such account", folder, &err), -1);
	ck_assert_str_eq(text, "agents: there is no account no such account");
}
