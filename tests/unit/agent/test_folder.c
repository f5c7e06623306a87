/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of agents, while another gateway on the host removes those of the dead. */
#include "agent/folder.h"

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
		sl_agent_folder_sweep();
	if (child == 0)
		_exit(0);
	return child;
}

/* Each is of its own, has the lock, and stays until that is given up. */
TEST(a_folder_is_there_while_other_gateways_sweep)
{
	struct sl_agent_folder folder;
	struct sl_err err = SL_ERR(200);
	pid_t sweepers[SWEEPERS];

	for (int i = 0; i < SWEEPERS; i++)
		sweepers[i] = sweep_for_ever();
	for (int i = 0; i < FOLDERS; i++) {
		struct stat at, by_name;

		ck_assert_msg(!sl_agent_folder_make(&folder, &err), "%d: %s", i, err.text);
		ck_assert_int_eq(fstat(folder.lock, &at), 0);
		ck_assert_msg(stat(folder.path, &by_name) == 0, "folder %d has gone", i);
		ck_assert(at.st_ino == by_name.st_ino && (at.st_mode & 077) == 0);
		close(folder.lock);
	}
	for (int i = 0; i < SWEEPERS; i++) {
		ck_assert_int_eq(kill(sweepers[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(sweepers[i], NULL, 0), sweepers[i]);
	}
	sl_agent_folder_sweep();
	ck_assert_int_ne(access(folder.path, F_OK), 0);
}

TEST(folder_that_was_removed_is_made_again)
{
	struct sl_agent_folder folder;
	struct sl_err err = SL_ERR(200);
	struct agent_file_ids before, after;
	struct stat st;

	ck_assert_int_eq(sl_agent_folder_make(&folder, &err), 0);
	ck_assert_int_eq(chown(folder.path, 65534, 65534), 0);
	before = agent_file_ids_read(folder.path);
	sl_agent_folder_restore(&folder);
	after = agent_file_ids_read(folder.path);
	ck_assert(before.dev == after.dev && before.ino == after.ino);
	ck_assert_uint_eq(before.resolver, after.resolver);
	ck_assert_int_eq(rmdir(folder.path), 0);
	ck_assert(agent_file_ids_read(folder.path).dev == 0);
	sl_agent_folder_restore(&folder);
	ck_assert_int_eq(stat(folder.path, &st), 0);
	ck_assert(st.st_uid == 65534 && st.st_gid == 65534 && (st.st_mode & 07777) == 0700);
	sl_agent_folder_sweep(); /* it is locked */
	ck_assert_int_eq(access(folder.path, F_OK), 0);
	sl_agent_folder_remove(&folder);
	ck_assert_int_ne(access(folder.path, F_OK), 0);
}
