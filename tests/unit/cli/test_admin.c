/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of an admin endpoint: whole, or an error that says what is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/cli.h"
#include "suite.h"

enum { MIB = 1 << 20 };

static struct cli_target target;
static char text[200], *body;
static struct sl_err err = {text, sizeof(text)};
static pid_t server;

static void serve(const char *head, size_t len)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	static char some[MIB], request[2000];

	snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/sl-unit-cli-%d.sock", (int)getpid());
	target = (struct cli_target){.port = 0};
	memcpy(target.socket, at.sun_path, sizeof(at.sun_path));
	unlink(at.sun_path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	server = fork();
	if (!server) {
		int conn = accept(fd, NULL, NULL);
		ssize_t n = recv(conn, request, sizeof(request), 0);

		memset(some, ' ', sizeof(some));
		n = n > 0 ? send(conn, head, strlen(head), MSG_NOSIGNAL) : n;
		for (size_t left = len, k; left && n > 0; left -= k) {
			k = left < MIB ? left : MIB;
			for (size_t sent = 0; sent < k && n > 0; sent += n > 0 ? (size_t)n : 0)
				n = send(conn, some + sent, k - sent, MSG_NOSIGNAL);
		}
		_exit(0);
	}
	close(fd);
}

static int ask(void)
{
	int status;

	text[0] = 0;
	status = cli_admin_ask(&target, "GET", "/stats", &body, &err);
	waitpid(server, NULL, 0);
	unlink(target.socket);
	return status;
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *answer;
	int status;
	const char *text; /* the body, or in the error */
} answers[] = {
	{OK "Content-Length: 4\r\n\r\nabcd", 200, "abcd"},
	{OK "Content-Length: 0\r\n\r\n", 200, ""},
	{OK "\r\nabc", 200, "abc"},
	{OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\na: b\r\n\r\n", 200,
	 "abc"},
	{"HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\nx", 404, "x"},
	{"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
	{OK "Content-Length: 5\r\n\r\nabcd", -1, "the answer is cut short"},
	{OK "Content-Length: 5\r\n\r\n", -1, "the answer is cut short"},
	{OK "Content-Length: 5\r\n", -1, "the answer is cut short"},
	{OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", -1, "the answer is cut short"},
	{OK "Transfer-Encoding: chunked\r\n\r\n2\r\na", -1, "the answer is cut short"},
	{OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n", -1, "the answer is cut short"},
	{OK "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", -1,
	 "the answer is cut short"},
	{OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", -1, "the answer is no HTTP: two"},
	{"HTTP/3 200\r\n\r\n", -1, "the answer is no HTTP: no status line"},
	{"SSH-2.0-OpenSSH\r\n", -1, "no HTTP answer; is that a gateway?"},
	{"", -1, "no HTTP answer; is that a gateway?"},
};

TEST_EACH(an_answer_is_whole_or_an_error, SL_ARRAY_LEN(answers))
{
	serve(answers[_i].answer, 0);
	ck_assert_int_eq(ask(), answers[_i].status);
	if (answers[_i].status > 0) {
		ck_assert_str_eq(body, answers[_i].text);
		free(body);
		return;
	}
	ck_assert_ptr_null(body);
	ck_assert_ptr_nonnull(strstr(text, answers[_i].text));
	ck_assert_ptr_nonnull(strstr(text, target.socket));
}

TEST(an_answer_beyond_the_limit_is_named)
{
	serve(OK "\r\n", 33 * (size_t)MIB);
	ck_assert_int_eq(ask(), -1);
	ck_assert_ptr_nonnull(strstr(text, "found an answer of more than 32 MiB"));
}

TEST(a_long_answer_is_whole)
{
	serve(OK "\r\n", 31 * (size_t)MIB);
	ck_assert_int_eq(ask(), 200);
	ck_assert_uint_eq(strlen(body), 31 * (size_t)MIB);
	free(body);
}
