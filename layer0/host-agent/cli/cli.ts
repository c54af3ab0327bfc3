/** The operator's command `flynn-host`: this host's agent, asked directly. It works when all of Layer 1 is down. */
import { Command, CommanderError } from 'commander';
import { asFlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { metricsToken } from '@flynn/kit/metrics-token';
import { addCertificateCommands } from './certificates.ts';
import { collectDebug } from './debug.ts';
import { addDoctorCommands } from './doctor.ts';
import { addEtcdCommands } from './etcd.ts';
import { addHostCommands } from './hosts.ts';
import { addJobCommands } from './jobs.ts';
import { addNetworkCommands } from './network.ts';
import { readInstallation } from './installation.ts';
import type { CliContext } from './context.ts';
import { addSnapshotCommands } from './snapshot.ts';
import { addWorkloadCommands } from './workloads.ts';

const callTimeoutMs = 15_000;

/** The exit code, whatever happened; `addMore` is for commands of other packages. */
export async function runHostCommand(
  argv: readonly string[],
  addMore: (context: CliContext) => void = () => {},
): Promise<number> {
  const program = new Command('flynn-host')
    .description("this host's agent, its jobs and the hosts of its cluster")
    .option('--state-dir <path>', 'where the agent keeps its state', process.env['FLYNN_STATE_DIR'] ?? '/var/lib/flynn')
    .exitOverride()
    .showHelpAfterError('  "flynn-host help COMMAND" tells what a command takes');
  const installation = () => readInstallation(program.opts<{ stateDir: string }>().stateDir);
  const context: CliContext = {
    program,
    installation,
    async withAgent(work) {
      const { key, localKey = key, url } = await installation();
      await using client = new HttpClient({
        baseUrl: url,
        key: localKey,
        name: "this host's agent",
        timeoutMs: callTimeoutMs,
      });
      return await work(client);
    },
    print: (text) => void process.stdout.write(text),
  };
  addJobCommands(context);
  addHostCommands(context);
  addWorkloadCommands(context);
  addSnapshotCommands(context);
  addDoctorCommands(context);
  addEtcdCommands(context);
  addCertificateCommands(context);
  addNetworkCommands(context);
  addAgentCommands(context);
  addMore(context);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    process.stderr.write(`flynn-host: ${asFlynnError(error).message}\n`);
    return 1;
  }
}

function addAgentCommands(context: CliContext): void {
  const { program, withAgent, print } = context;
  program
    .command('metrics-token')
    .description('what monitoring reads the figures of all parts with (/metrics); it opens nothing else')
    .action(async () => print(`${metricsToken((await context.installation()).key)}\n`));
  program
    .command('collect-debug')
    .description('everything somebody else needs to help, in a tar file without secrets')
    .argument('[file]', 'default: flynn-debug-<host>-<time>.tar.gz')
    .action(async (file: string | undefined) => {
      const path = await withAgent(async (client) => collectDebug(client, await context.installation(), file));
      print(`${path}\n`);
    });
}
