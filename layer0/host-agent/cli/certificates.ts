/** `flynn-host certificates`: what hosts and the platform's jobs show each other, and new ones at once. */
import type { HttpClient } from '@flynn/kit/http-client';
import { agentClient } from '../agent-client.ts';
import { routes } from '../api.ts';
import type { CliContext } from './context.ts';
import { formatTable } from './format.ts';
import { type KnownCertificates, certificateRoutes } from '../trust/api.ts';
import { readHostIdentity } from '../trust/host-trust.ts';

type Told = { host: string; certificates: KnownCertificates };
type Options = { all?: true; json?: true };

export function addCertificateCommands(context: CliContext): void {
  const { program, print } = context;
  const tell = (told: readonly Told[], json: true | undefined) => {
    if (json) print(`${JSON.stringify(told, undefined, 2)}\n`);
    else print(formatTable([['HOST', 'ROLE', 'JOB', 'UNTIL', 'FINGERPRINT'], ...told.flatMap(rowsOf)]));
  };
  const certificates = program
    .command('certificates')
    .description('the certificates that this host and its jobs show others')
    .option('--all', 'of all hosts')
    .option('--json', 'as JSON')
    .action(async ({ all, json }: Options) => {
      tell(await onHosts(context, all === true, (agent) => agent.call(certificateRoutes.list, {})), json);
    });
  certificates
    .command('renew')
    .description('make them again now, with new keys; they are made again by themselves before they end')
    .action(async () => {
      const { all, json } = certificates.opts<Options>();
      tell(await onHosts(context, all === true, (agent) => agent.call(certificateRoutes.renew, {})), json);
    });
}

/** One after the other: the first that fails is told, and what the others have is whole. */
async function onHosts(
  { withAgent, installation }: CliContext,
  isAll: boolean,
  ask: (agent: HttpClient) => Promise<KnownCertificates>,
): Promise<Told[]> {
  const { key, stateDir } = await installation();
  return withAgent(async (own) => {
    if (!isAll) return [{ host: (await own.call(routes.host, {})).id, certificates: await ask(own) }];
    const identity = await readHostIdentity(stateDir);
    const told: Told[] = [];
    for (const { record } of await own.call(routes.hosts, {})) {
      if (record === undefined) continue;
      await using agent = agentClient(record, { key, identity });
      told.push({ host: record.id, certificates: await ask(agent) });
    }
    return told;
  });
}

function rowsOf({ host, certificates }: Told): string[][] {
  return certificates.map(({ role, jobId = '', validTo, fingerprint }) => [
    host,
    role,
    jobId,
    validTo.slice(0, 10),
    fingerprint.slice(0, 16),
  ]);
}
