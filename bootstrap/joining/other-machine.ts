/**
 * Is another machine the host that this one was? One was made of a copy of the other's disk then, and bringing up the copy at an
 * address of its own would take the host's place in the cluster, and in etcd, from it.
 */
import { routes } from '@flynn/host-agent/api';
import { readInstallation } from '@flynn/host-agent/cli/installation';
import { ownAddresses } from '@flynn/host-agent/hosts/own-addresses';
import { otherMachineFile } from '@flynn/host-agent/fencing/other-machine';
import { OwnRuns, type Rival } from '@flynn/host-agent/fencing/own-runs';
import { certainMs, rivalText } from '@flynn/host-agent/fencing/rivals';
import { pause } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Entry } from '@flynn/store/store';
import { withStore } from '../platform/controller.ts';
import type { Cluster } from '../settings.ts';

/** A store that answers at all does so within less. */
const askMs = 8_000;
const agentMs = 3_000;
const usualLookMs = 1_000;
/** An election is over before so many looks are, of which each waits for an answer. */
const unansweredLooks = 3;

export type Asked = Readonly<{
  addresses: () => Promise<ReadonlySet<string>>;
  /** This host's record, as the store has it. */
  record: () => Promise<Entry | undefined>;
  /** When the agent that runs here began; undefined where none answers. */
  agentSince: () => Promise<number | undefined>;
  report: (line: string) => void;
  patienceMs?: number;
  lookMs?: number;
}>;

/**
 * `conflict` while an agent lives as this host that is none of this machine's. Asked only where the machine is not known by the
 * address it was known by, or where its agent stands aside for a machine that was this host. What an agent that was killed left is
 * waited for. A look that the store does not answer says nothing of one that was seen before. Only where no look was answered the
 * word of who runs the command is taken, that this machine is the host, and that is told: its agent stands aside no more, but asks
 * again before it does anything.
 */
export async function refuseOtherMachine(
  stateDir: string,
  { hostId, address, site }: Pick<Cluster, 'hostId' | 'address' | 'site'>,
  { addresses, record, agentSince, report, patienceMs = certainMs, lookMs = usualLookMs }: Asked,
): Promise<void> {
  const here = await addresses();
  const file = otherMachineFile(stateDir, silentLogger());
  const before = await file.read(here);
  if (before === undefined && site === undefined && here.has(address)) return;
  const runs = await OwnRuns.read(stateDir, silentLogger());
  const look = async (): Promise<Rival | 'none' | 'unanswered'> => {
    let entry: Entry | undefined;
    try {
      entry = await record();
    } catch {
      return 'unanswered';
    }
    const rival = runs.elsewhere(entry, await addresses());
    // One that runs here since before its machine's address became another one.
    return rival === undefined || (await agentSince()) === rival.record.startedAt ? 'none' : rival;
  };
  const beganMs = performance.now();
  const leastLooks = before === undefined ? 1 : unansweredLooks;
  let rival: Rival | undefined;
  let told = '';
  for (let looks = 1; ; looks += 1) {
    const seen = await look();
    if (seen === 'none') {
      if (before !== undefined)
        report(
          `${before.address}, where another machine was host ${hostId}, announces it no more: this one is the host`,
        );
      return await file.forget();
    }
    if (seen !== 'unanswered') rival = seen;
    if (rival === undefined && looks >= leastLooks) {
      report(
        `the store does not tell whether another machine is host ${hostId} too: this one is taken for it, as you say, and its agent asks again before it does anything`,
      );
      return await file.forget();
    }
    if (rival !== undefined && performance.now() - beganMs >= patienceMs) {
      throw new FlynnError(
        'conflict',
        `${rivalText(rival)}. One of the two was made of a copy of the other's disk. Where this one is the copy, switch it off, or remove its state folder and the cluster's containers and volumes before it has a network again (docs/operating.md, "Another address"); where the other one is, switch that off and run the same command again. Nothing was changed`,
      );
    }
    const waits =
      rival === undefined
        ? `the store does not tell whether another machine is host ${hostId} too: asking again`
        : `waiting for what an agent at another address left of host ${hostId} to end, if it did end`;
    if (waits !== told) report(waits);
    told = waits;
    await pause(lookMs, withDeadline(lookMs));
  }
}

/** Of the real ones. */
export function askedOf(stateDir: string, cluster: Cluster, report: Asked['report']): Asked {
  const place = { stateDir, cluster, log: silentLogger() };
  return {
    addresses: ownAddresses,
    report,
    record: () =>
      raceAbort(
        withStore(place, (store) => store.get(cellKeys.host(cluster.hostId))),
        withDeadline(askMs),
      ),
    async agentSince() {
      try {
        const { url, key, localKey = key } = await readInstallation(stateDir);
        await using client = new HttpClient({ baseUrl: url, key: localKey, name: 'the host agent' });
        return (await client.call(routes.status, {}, { timeoutMs: agentMs })).host.startedAt;
      } catch {
        return undefined;
      }
    },
  };
}
