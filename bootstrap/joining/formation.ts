/** Hosts that form a cluster together: how many, which ones, and the wait for them. */
import { styleText } from 'node:util';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { withStore } from '../platform/controller.ts';
import { commands } from '../origin.ts';
import type { Problem } from '../machine/preflight.ts';
import type { Cluster } from '../settings.ts';
import type { Step } from '../steps/step.ts';

export type Formation = Readonly<{
  /** The cluster's platform is started once it has so many. */
  minHosts: number;
  /** Addresses of all of them, this one's among them; with none it does not matter which they are. */
  peers: readonly string[];
}>;

/** Whoever brings up machines goes from one to the next in the meantime. */
const joinMs = 30 * 60_000;
/** etcd has no more, however many hosts there are. */
const maxMembers = 3;
/** More at once are no bootstrap. */
const maxHosts = 1_000;

const peersSchema = z.array(z.ipv4());
const memberSchema = z.object({ state: z.string() });

/** `invalid` for what are no numbers or addresses. Without `minHosts` all that are named. */
export function readFormation(given: { minHosts?: string; peerIps?: string }): Formation | undefined {
  if (given.minHosts === undefined && given.peerIps === undefined) return undefined;
  const peers = peersSchema.safeParse(given.peerIps?.split(',').map((part) => part.trim()) ?? []);
  if (!peers.success) {
    throw new FlynnError(
      'invalid',
      '--peer-ips takes IPv4 addresses with commas between them, such as 10.0.0.1,10.0.0.2',
    );
  }
  const minHosts = Number(given.minHosts ?? peers.data.length);
  if (!Number.isSafeInteger(minHosts) || minHosts < 1 || minHosts > maxHosts) {
    throw new FlynnError('invalid', `--min-hosts takes a number from 1 to ${maxHosts}`);
  }
  return { minHosts, peers: peers.data };
}

/** What cannot become a cluster, before anything is changed. */
export function judgeFormation({ minHosts, peers }: Formation, cluster: Cluster): Problem[] {
  const problems: Problem[] = [];
  if (!cluster.hasPlatform) {
    problems.push({
      what: `this machine is a host of the cluster ${cluster.name}, which another one made`,
      remedy: `run it there, or without --min-hosts and --peer-ips, to bring this host up to date`,
    });
  }
  if (minHosts === 2) {
    problems.push({
      what: 'two hosts are no safer than one: of two votes neither is a majority, so the store stays on one of them',
      remedy: 'give --min-hosts 3, or 1 and let others join later',
    });
  }
  if (peers.length === 0) return problems;
  const twice = peers.find((address, index) => peers.indexOf(address) !== index);
  if (twice !== undefined) problems.push({ what: `--peer-ips names ${twice} twice`, remedy: 'name each host once' });
  if (peers.length < minHosts) {
    problems.push({
      what: `--peer-ips names ${peers.length} of the ${minHosts} hosts that --min-hosts asks for`,
      remedy: 'name all of them, this one too, or none',
    });
  }
  if (!peers.includes(cluster.address)) {
    problems.push({
      what: `--peer-ips does not name this machine, which others reach at ${cluster.address}`,
      remedy: `add it, or say which address is right: FLYNN_ADDRESS=${peers[0]} ${commands.up}`,
    });
  }
  return problems;
}

/** For people: each host that has not joined, by address where that is known, and a store that has too few votes yet. */
export async function missingOf(store: Store, { minHosts, peers }: Formation): Promise<string[]> {
  const [cell, members] = await Promise.all([store.list(cellKeys.hosts), store.list(memberKey(''))]);
  const present = cell.entries.map(({ value }) => hostRecordSchema.parse(JSON.parse(value)).address);
  const absent = peers.filter((address) => !present.includes(address));
  const others = minHosts - present.length - absent.length;
  const voters = members.entries.filter(({ value }) => memberSchema.parse(JSON.parse(value)).state === 'voter').length;
  const votes = (minHosts < maxMembers ? 1 : maxMembers) - voters;
  return [
    ...absent,
    ...(others > 0 ? [`${others} more ${others === 1 ? 'host' : 'hosts'}`] : []),
    ...(votes > 0 ? [`${votes} more ${votes === 1 ? 'member' : 'members'} of the store`] : []),
  ];
}

/** What to type on the others. The token is on standard output as it would be by itself. */
export function joinText(token: string, missing: readonly string[]): string {
  const command = commands.join.replace('TOKEN', token);
  return `\nThis cluster waits for ${missing.join(', ')}. On each of the other hosts:\n\n  ${styleText('bold', command)}\n\n`;
}

export function membersStep(host: { stateDir: string; cluster: Cluster; log: Logger }, formation: Formation): Step {
  return {
    title: `${formation.minHosts} hosts`,
    run: async (report) => {
      let missing: readonly string[] = [];
      let told = '';
      try {
        await withStore(host, (store) =>
          waitFor(
            async () => {
              missing = await missingOf(store, formation);
              const text = missing.join(', ');
              if (text !== told && text !== '') report(`waiting for ${text}`);
              told = text;
              return missing.length === 0;
            },
            { what: `${formation.minHosts} hosts`, deadlineMs: joinMs, intervalMs: 500 },
          ),
        );
      } catch (error) {
        if (!hasCode(error, 'timeout')) throw error;
        const minutes = joinMs / 60_000;
        throw new FlynnError(
          'timeout',
          `${missing.join(', ')} did not come within ${minutes} minutes: ${commands.join} on the hosts, with what ${commands.token} prints here`,
          { cause: error },
        );
      }
      return 'together';
    },
  };
}
