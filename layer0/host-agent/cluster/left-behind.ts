/**
 * Has the cluster another store by now, of which this host's member is none? Then it was made anew while this host was away
 * (`recovery.ts`), and two such members together would go on as the store they were, beside it.
 *
 * Asked before the member is started, and no longer than a moment: after a power cut of all nobody answers, and all are to come
 * back.
 */
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { z } from 'zod';
import type { Config } from '../config.ts';
import { clientUrlOf, etcdVolume, residentFile } from './etcd-resident.ts';
import { memberPrefix, memberSchema } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { knownEndpoints } from './membership.ts';
import { readTls } from './start.ts';

const askMs = 1_500;

const volumesSchema = z.object({
  template: z.object({ volumes: z.array(z.object({ name: z.string() })).default([]) }),
});

/** By host, as a store has them. `volumes`: what this host's member runs with. */
export function isLeftBehind(
  members: ReadonlyMap<string, Member>,
  hostId: string,
  volumes: readonly string[],
): boolean {
  // One that has none at all was never told who they are.
  if (members.size === 0) return false;
  const own = members.get(hostId);
  if (own === undefined) return true;
  // It is to become another one. What a voter's key says of its data may be of before.
  return own.state === 'joining' && !volumes.includes(etcdVolume(own.memberId));
}

/** False where nobody answers, and whatever else is wrong: a member that is not started may be missing for the majority. */
export async function wasLeftBehind(
  config: Config,
  { log, signal }: { log: Pick<Logger, 'warn'>; signal: AbortSignal },
): Promise<boolean> {
  const { FLYNN_STATE_DIR: stateDir, FLYNN_ADDRESS: address, FLYNN_HOST_ID: hostId } = config;
  try {
    const tls = await readTls(config);
    const endpoints = await knownEndpoints(stateDir, config.FLYNN_ETCD_ENDPOINTS);
    const others = endpoints.filter((endpoint) => endpoint !== clientUrlOf(address));
    const volumes = (await readJsonFile(residentFile(stateDir), volumesSchema))?.template.volumes ?? [];
    const limited = withDeadline(askMs, signal);
    const asked = await Promise.allSettled(others.map((endpoint) => readMembers(endpoint, tls, limited)));
    const names = volumes.map(({ name }) => name);
    return asked.some((answer) => answer.status === 'fulfilled' && isLeftBehind(answer.value, hostId, names));
  } catch (error) {
    signal.throwIfAborted();
    log.warn(`the other hosts could not be asked of the store they have: ${messageOf(error)}`);
    return false;
  }
}

/** As a majority has them, or not at all. */
async function readMembers(
  endpoint: string,
  tls: EtcdTls | undefined,
  signal: AbortSignal,
): Promise<Map<string, Member>> {
  const access = { endpoints: [endpoint], timeoutMs: askMs, log: silentLogger() };
  await using store = connectEtcd({ ...access, ...(tls === undefined ? {} : { tls }) });
  const { entries } = await store.list(memberPrefix, { signal });
  return new Map(
    entries.map(({ key, value }) => [key.slice(memberPrefix.length), memberSchema.parse(JSON.parse(value))]),
  );
}
