/* SPDX-License-Identifier: Apache-2.0 */
/* sluice-agent: the subcommand `agent` as a program of its own, for hosts without a gateway. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return cli_agent(argc, argv);
}
