/** The operator's command `flynn-host`: this machine as a host of a cluster, beside what the host agent's package has of it. */
import { runHostCommand } from '@flynn/host-agent/cli/cli';
import { addClusterCommands } from './host-commands.ts';
import { pathOfRoot } from './machine/program.ts';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // `flynn-host log | head` is no failure.
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});
process.env['PATH'] = pathOfRoot(process.env['PATH']);
const code = await runHostCommand(process.argv.slice(2), addClusterCommands);
// A connection that a member of the store which hangs neither takes nor refuses would keep the command from ending.
process.exit(code === 0 ? process.exitCode : code);
