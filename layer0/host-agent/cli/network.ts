/** `flynn-host network`: how hosts reach each other, and whether what their containers send each other is encrypted. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { type AgentPlace, agentClient } from '../agent-client.ts';
import { type KnownHost, routes } from '../api.ts';
import type { CliContext } from './context.ts';
import { formatTable } from './format.ts';
import { type ReachedHost, type ShownNetwork, networkRoutes } from '../network/api.ts';
import { isHalfway } from '../network/encryption.ts';
import { changeEncryption, endings } from '../network/change-encryption.ts';
import { readHostIdentity } from '../trust/host-trust.ts';

const showMs = 5_000;

export function addNetworkCommands(context: CliContext): void {
  const { program, print } = context;
  const network = program
    .command('network')
    .description('by which way each host reaches the others, and whether that is encrypted')
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: true }) => {
      const shown = await onHosts(context, async ({ hosts, show }) =>
        Promise.all((await hosts()).map(({ id, isAway }) => shownOf(id, isAway ? undefined : show))),
      );
      print(json ? `${JSON.stringify(shown, undefined, 2)}\n` : networkText(shown));
    });
  for (const [name, to, description] of [
    [
      'encrypt',
      'on',
      'all that containers of different hosts send each other, with WireGuard; nothing stops meanwhile',
    ],
    ['decrypt', 'off', 'no more; what is sent to and from hosts behind NAT stays encrypted'],
  ] as const) {
    network
      .command(name)
      .description(description)
      .action(async () => {
        await onHosts(context, async (ports) => {
          const signal = new AbortController().signal;
          await changeEncryption(to, { ...ports, report: (line) => print(`${line}\n`) }, { signal });
        });
        print(to === 'on' ? 'the cluster is encrypted\n' : 'the cluster is not encrypted\n');
      });
  }
}

/** `why`: that of a host which does not tell. */
type Shown = Readonly<{ host: string } & ({ network: ShownNetwork } | { why: string })>;

/** One that does not answer takes nothing from what the others tell. */
async function shownOf(host: string, show: ((id: string) => Promise<ShownNetwork>) | undefined): Promise<Shown> {
  if (show === undefined) return { host, why: 'away' };
  try {
    return { host, network: await show(host) };
  } catch (error) {
    return { host, why: messageOf(error) };
  }
}

/** Each host is asked by its own agent: what it is to be and what it has carried out are two things. */
async function onHosts<T>(
  { withAgent, installation }: CliContext,
  task: (ports: Omit<Parameters<typeof changeEncryption>[1], 'report'>) => Promise<T>,
): Promise<T> {
  const { key, stateDir } = await installation();
  const identity = await readHostIdentity(stateDir);
  return await withAgent(async (own) =>
    task({
      hosts: async () => {
        const present = new Set((await known(own)).flatMap(({ record }) => (record === undefined ? [] : [record.id])));
        const { hosts } = await own.call(networkRoutes.show, {});
        // One that is away for long, and nothing was ever said of, is known by its lease alone.
        const ids = new Set([...present, ...hosts.map(({ hostId }) => hostId)]);
        return [...ids].sort().map((id) => ({ id, isAway: !present.has(id) }));
      },
      show: async (id) => {
        await using agent = agentClient(placeOf(await known(own), id), { key, identity });
        return await agent.call(networkRoutes.show, {}, { timeoutMs: showMs });
      },
      read: async () => (await own.call(networkRoutes.encryption, {})).encryption,
      set: async (encryption) => void (await own.call(networkRoutes.setEncryption, { body: { encryption } })),
    }),
  );
}

const known = (own: HttpClient): Promise<readonly KnownHost[]> => own.call(routes.hosts, {});

function placeOf(hosts: readonly KnownHost[], id: string): AgentPlace {
  const record = hosts.find((host) => host.id === id)?.record;
  if (record === undefined) throw new FlynnError('unavailable', `host ${id} is away`);
  return record;
}

/** One that is in the middle, or cannot be read, with what to type. */
export function networkText(shown: readonly Shown[]): string {
  const rows = shown.flatMap((one) =>
    'network' in one
      ? one.network.hosts.map((to) => [one.host, to.hostId, wayOf(to), heardOf(to)])
      : [[one.host, '', one.why, '']],
  );
  return `${encryptionText(shown)}\n${formatTable([['HOST', 'TO', 'WAY', 'HEARD'], ...rows])}`;
}

function encryptionText(shown: readonly Shown[]): string {
  const networks = shown.flatMap((one) => ('network' in one ? [one.network] : []));
  const states = new Set(networks.flatMap(({ encryption }) => encryption ?? []));
  const lines = [`encryption: ${[...states].join(', ') || 'no host has carried it out yet'}`];
  if (networks.some(({ isUnreadable }) => isUnreadable === true)) {
    lines.push(`  its word in the store cannot be read: hosts keep to what they knew last. ${endings.unreadable}`);
  } else if ([...states].some(isHalfway)) {
    lines.push(`  if nobody is changing it now, a change was left half-way. ${endings.halfway}`);
  }
  return `${lines.join('\n')}\n`;
}

function wayOf({ hostId, way, through, why }: ReachedHost): string {
  if (way === 'none') return `none: ${why ?? ''}`;
  return through === undefined || through === hostId ? way : `${way} through ${through}`;
}

function heardOf({ isHeard }: ReachedHost): string {
  return isHeard === undefined ? '' : isHeard ? 'yes' : 'no';
}
