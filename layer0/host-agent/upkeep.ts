/** What the agent does besides running jobs: guards the lease, cleans up, measures. Put together for agent.ts. */
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Registry } from '@flynn/discovery/registry';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { Lease, Revision, Store } from '@flynn/store/store';
import { Cleaner } from './disk/cleaner.ts';
import { type SharedNode, removeOldNodes } from './containers/shared-node.ts';
import type { ContainerTable } from './containers/table.ts';
import { type Excess, excessText } from './disk/excess.ts';
import { DiskMeter } from './disk/meter.ts';
import type { Container, Engine } from './engine/engine.ts';
import type { HangWatch } from './engine/hang.ts';
import { Fence } from './fencing/fence.ts';
import { diskRoomOf } from './disk/use.ts';
import { Figures } from './usage/figures.ts';
import type { Host } from './host.ts';
import { openOrClosed } from './hosts/record.ts';
import { HostService, attributesOfHost } from './discovery/host-service.ts';
import { readSettings } from './hosts/settings.ts';
import { imageNamesOf } from './images/names.ts';
import { ImageUses } from './images/uses.ts';
import { followNeighbours } from './hosts/neighbours.ts';
import type { Neighbours } from './hosts/neighbours.ts';
import type { Meeting } from './hosts/record.ts';
import type { Rival } from './fencing/own-runs.ts';
import { jobIdOf } from './jobs/plan.ts';
import { readResidents } from './jobs/resident.ts';
import { stopsSingletons } from './fencing/rivals.ts';
import type { Rivals } from './fencing/rivals.ts';
import type { Standing } from './fencing/standing.ts';
import type { Watchdog } from './fencing/watchdog.ts';

export type UpkeepDeps = {
  stateDir: string;
  cluster: string;
  hostId: string;
  engine: Engine;
  containers: ContainerTable;
  hang: Pick<HangWatch, 'since'>;
  store: Store;
  registry: Pick<Registry, 'register'>;
  watchdog: Watchdog;
  rivals: Rivals;
  standing: Standing;
  uses: ImageUses;
  /** What containers of the platform's parts run on, where it is the agent's own. */
  node: SharedNode | undefined;
  /** Where the engine keeps its files. */
  diskPath: string;
  /** Whether the host has its subnet from the cluster: without, no other host has a way to what runs here. */
  hasLease: () => boolean;
  /** Kept whether a job needs them at the moment or not. */
  platformImages: () => readonly string[];
  /** The jobs, once they are there. */
  host: () => Host | undefined;
  note: (container: Container, message: string) => void;
  log: Logger;
};

export type Upkeep = {
  fence: Fence;
  neighbours: Neighbours;
  cleaner: Cleaner;
  figures: Figures;
  /** The record as it is now: with what keeps new jobs away. */
  recordOf: (record: HostRecord) => HostRecord;
  /** For `keepAnnounced`: what the agent before this one left to be guarded gets no more time than the lease has. */
  beforeAnnounced: (lease: Lease) => Promise<void>;
  /** For `keepAnnounced`: opens the fence and announces the host in discovery. */
  onAnnounced: (record: HostRecord, lease: Lease, revision: Revision, signal: AbortSignal) => Promise<void>;
  /** For `keepAnnounced`: while the record is another machine's nothing is done as this host. */
  onRival: (rival: Rival, how: Meeting) => void;
};

/** Containers of a version before go with an update, within minutes. */
const nodesEveryMs = 600_000;

/** Its tasks run in the group. */
export async function startUpkeep(deps: UpkeepDeps, tasks: TaskGroup): Promise<Upkeep> {
  const { engine, containers, store, hostId, log, uses, diskPath } = deps;
  const neighbours = await followNeighbours({ store, hostId, log, signal: tasks.signal });
  const fence = new Fence({
    engine,
    containers,
    watchdog: deps.watchdog,
    isAlone: () => neighbours.isAlone,
    onStop: (container) => stopFor(container, { type: 'fenced' }),
    log,
  });
  const templateOf = (container: Container) =>
    deps
      .host()
      ?.assigned()
      .find(({ id }) => id === jobIdOf(container))?.template;
  const meter = new DiskMeter({ engine, containers, onExceeded, room: () => diskRoomOf(diskPath), templateOf, log });
  const usedPercent = async () => (await diskRoomOf(diskPath)).usedPercent;
  const residentDir = join(deps.stateDir, 'resident');
  const named = async () => {
    const templates = (deps.host()?.assigned() ?? []).map(({ template }) => template);
    const { residents } = await readResidents(residentDir, log);
    const platform = deps.platformImages().map((name) => ({ image: { name } }));
    return imageNamesOf([...templates, ...residents.map(({ template }) => template), ...platform]);
  };
  const cleaner = new Cleaner({ engine, containers, uses, cluster: deps.cluster, named, usedPercent, log });
  const figures = new Figures({ engine, containers, meter, diskPath });
  const service = new HostService(deps.registry);
  const { rivals, standing } = deps;
  tasks.run('fence', (signal) => fence.run(signal));
  tasks.run('disk meter', (signal) => meter.run(signal));
  tasks.run('cleaner', (signal) => cleaner.run(signal));
  tasks.run('old Nodes', (signal) => forever('removing old copies of Node', collectNodes, { signal, log }));

  async function collectNodes(signal: AbortSignal): Promise<void> {
    if (containers.isCurrent) {
      const mounted = new Set(containers.all().flatMap(({ binds = [] }) => binds));
      await removeOldNodes({ stateDir: deps.stateDir, current: deps.node, mounted, log });
    }
    await pause(nodesEveryMs, signal);
  }

  function stopFor(container: Container, cause: { type: 'fenced' } | { type: 'disk_full'; message: string }): void {
    deps.host()?.jobs.update(jobIdOf(container), (record) => ({ ...record, stopCause: record.stopCause ?? cause }));
  }

  function onExceeded(container: Container, excess: Excess): void {
    const message = excessText(excess);
    deps.note(container, message);
    stopFor(container, { type: 'disk_full', message });
  }

  return {
    fence,
    neighbours,
    cleaner,
    figures,
    onRival(rival, how) {
      rivals.met(rival, how === 'taken back');
      if (how === 'taken back') return;
      standing.fall();
      const { isAlone } = neighbours;
      if (stopsSingletons(how, { isAlone, isCertain: rivals.known() !== undefined })) fence.close();
    },
    recordOf: (record) =>
      openOrClosed(record, {
        isUnleased: !deps.hasLease(),
        isDiskFull: cleaner.isFull,
        isEngineHung: deps.hang.since !== undefined,
      }),
    beforeAnnounced: (lease) => fence.expect(lease),
    async onAnnounced(record, lease, revision, signal) {
      await Promise.all([deps.host()?.caughtUp(revision, signal), neighbours.reached(revision, signal)]);
      fence.hold(lease);
      standing.stand(lease);
      const [settings, use] = await Promise.all([readSettings(store, hostId, { signal }), figures.ofHost()]);
      const jobs = containers.assigned().filter(({ state }) => state === 'running').length;
      await service.announce(record, attributesOfHost({ record, settings, use, jobs }), lease);
    },
  };
}
