/**
 * Resident jobs: what has to run before there is a store to be told by, such as etcd itself. Their specs are files that
 * bootstrap writes into `<state dir>/resident/`; they run on this host for as long as the file is there.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { readJsonFile } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import { z } from 'zod';
import { restartDelayMs, countFailures } from './backoff.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, ContainerSpec, Engine } from '../engine/engine.ts';
import { containerName, label, residentId, residentOf, volumeName } from '../engine/labels.ts';
import { type VolumesHad, lostVolumes, readVolumesHad, writeVolumesHad } from './resident-volumes.ts';
import { containerSpecOf } from '../containers/spec.ts';
import type { HostSettings } from '../containers/spec.ts';

export const residentSchema = z.object({
  /** Names the container: flynn-<cluster>-resident-<name>. */
  name: z.string().regex(/^[a-z][a-z0-9-]{0,40}$/),
  template: jobTemplateSchema,
  /** Ports of the host that lead to ports of the job. */
  published: z
    .array(z.object({ hostPort: z.int(), port: z.int(), protocol: z.enum(['tcp', 'udp']).default('tcp') }))
    .default([]),
  /** Directories of the host. */
  binds: z
    .array(z.object({ source: z.string(), path: z.string(), isReadOnly: z.boolean().default(false) }))
    .default([]),
});
export type Resident = z.output<typeof residentSchema>;
export type ResidentInput = z.input<typeof residentSchema>;

/** Of a spec: its job's name and this. */
const suffix = '.json';
const resyncMs = 5_000;
const stopMs = 30_000;

/** `unread`: names of those that are there and cannot be read. */
export type Specs = Readonly<{ residents: readonly Resident[]; unread: ReadonlySet<string> }>;

/** The specs in the folder. One that cannot be read is told about and must not keep the others from running. */
export async function readResidents(dir: string, log: Logger): Promise<Specs> {
  await mkdir(dir, { recursive: true });
  const files = (await readdir(dir)).filter((file) => file.endsWith(suffix) && !file.startsWith('.'));
  const residents: Resident[] = [];
  const unread = new Set<string>();
  for (const file of files.sort()) {
    try {
      const resident = await readJsonFile(join(dir, file), residentSchema);
      if (resident !== undefined) residents.push(resident);
    } catch (error) {
      const name = file.slice(0, -suffix.length);
      unread.add(name);
      log.error({ resident: name }, `a resident job stays as it is, and none begins: ${messageOf(error)}`);
    }
  }
  return { residents, unread };
}

export function residentSpec(resident: Resident, imageRef: string, host: HostSettings): ContainerSpec {
  const id = residentId(resident.name);
  const job = {
    id,
    workloadId: id,
    version: versionOf(resident),
    index: 0,
    desired: 'run' as const,
    singleton: false,
    createdAt: 0,
  };
  const template: JobTemplate = { ...resident.template, meta: { ...resident.template.meta, resident: resident.name } };
  const spec = containerSpecOf({ ...job, template }, imageRef, host);
  return {
    ...spec,
    labels: { ...spec.labels, [label.resident]: resident.name },
    published: resident.published,
    binds: resident.binds,
  };
}

function versionOf(resident: Resident): string {
  return createHash('sha256').update(JSON.stringify(resident)).digest('hex').slice(0, 16);
}

export type ResidentAction = 'none' | 'wait' | 'create' | 'start' | 'replace';

/**
 * What is to be done about one resident job. `nextStartAt` and `now` are of one clock, which nobody sets. Without a spec that can
 * be read the container is kept as it is.
 */
export function residentAction(
  resident: Resident | undefined,
  container: Container | undefined,
  nextStartAt: number,
  now: number,
): ResidentAction {
  if (container === undefined) return resident === undefined ? 'none' : now < nextStartAt ? 'wait' : 'create';
  if (resident !== undefined && container.labels[label.version] !== versionOf(resident)) return 'replace';
  if (container.state === 'running') return 'none';
  return now < nextStartAt ? 'wait' : 'start';
}

/**
 * INVARIANTS. Resident jobs need nothing but the engine and the disk. A changed spec replaces the container; a removed one
 * stops it. One that cannot be read does neither: its container runs on, and is started again as it is. None begins with an empty
 * volume in the place of one that it has had. One step at a time per job, also where one hangs, which keeps no other job waiting
 * for long.
 */
export class Residents {
  readonly #dir: string;
  readonly #engine: Engine;
  readonly #containers: ContainerTable;
  readonly #host: HostSettings;
  readonly #log: Logger;
  readonly #failures = new Map<string, { count: number; nextStartAt: number; endedAtMs?: number | undefined }>();
  readonly #lost = new Set<string>();
  /** Those that a step is under way of, also where the look that began it waits for it no more. */
  readonly #underWay = new Map<string, Promise<unknown>>();
  readonly #stepPatienceMs: number;
  readonly #mayStart: (name: string, signal: AbortSignal) => Promise<boolean>;
  readonly #mayRun: (name: string) => Promise<boolean>;
  /** Those that ran, or were let start, since this agent did. */
  readonly #admitted = new Set<string>();
  #had: VolumesHad | undefined;

  constructor(options: {
    dir: string;
    engine: Engine;
    containers: ContainerTable;
    host: HostSettings;
    /** Asked before one that does not run is started for the first time, and again every few seconds while it may not. */
    mayStart?: (name: string, signal: AbortSignal) => Promise<boolean>;
    /** Asked at each look: one that may not is stopped, and asked for again before it is started. */
    mayRun?: (name: string) => Promise<boolean>;
    /** How long the others wait for a step, at most. */
    stepPatienceMs?: number;
    log: Logger;
  }) {
    this.#stepPatienceMs = options.stepPatienceMs ?? resyncMs;
    this.#mayStart = options.mayStart ?? (async () => true);
    this.#mayRun = options.mayRun ?? (async () => true);
    this.#dir = options.dir;
    this.#engine = options.engine;
    this.#containers = options.containers;
    this.#host = options.host;
    this.#log = options.log;
  }

  /** Whether the job waits for volumes that it has had and the engine has no more. */
  hasLostData(name: string): boolean {
    return this.#lost.has(name);
  }

  /** Resolves when the signal aborts; the containers stay. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let changed = Promise.withResolvers<void>();
      const off = this.#containers.onChange(() => changed.resolve());
      let waitMs = resyncMs;
      try {
        if (this.#containers.isCurrent) waitMs = await this.converge(signal);
      } catch (error) {
        if (!signal.aborted) this.#log.warn(`resident jobs: ${messageOf(error)}`);
        // What just failed changed the table, perhaps; that is no reason to try at once.
        changed = Promise.withResolvers<void>();
        waitMs = 1_000;
      }
      await Promise.race([changed.promise, pause(waitMs, signal)]);
      off();
    }
    await Promise.allSettled(this.#underWay.values());
  }

  /** Answers in how many milliseconds to look again. */
  async converge(signal: AbortSignal): Promise<number> {
    const { residents, unread } = await readResidents(this.#dir, this.#log);
    const specs = new Map<string, Resident | undefined>();
    for (const name of unread) specs.set(name, undefined);
    for (const resident of residents) specs.set(resident.name, resident);
    for (const name of this.#lost) if (!specs.has(name)) this.#lost.delete(name);
    // Before others begin, which may be in their place. One that the engine does not let go keeps none of them back.
    const removed = this.#together(this.#removals(new Set(specs.keys()), signal), signal);
    await Promise.allSettled([removed]);
    const looks = [...specs].map(([name, spec]) =>
      this.#alone(name, () => this.#convergeOne(name, spec, signal), signal),
    );
    const waitMs = Math.min(resyncMs, ...(await this.#together(looks, signal)));
    await removed;
    return waitMs;
  }

  /** Of those without a spec. */
  #removals(specs: ReadonlySet<string>, signal: AbortSignal): Promise<number>[] {
    return this.#containers.all().flatMap((container) => {
      const name = residentOf(container.labels);
      if (name === undefined || specs.has(name)) return [];
      const removal = async (): Promise<number> => {
        await this.#remove(container, signal);
        return resyncMs;
      };
      return [this.#alone(name, removal, signal)];
    });
  }

  /** Of steps that take their time nothing is answered: they go on, and say themselves what becomes of them. */
  async #together(steps: readonly Promise<number>[], signal: AbortSignal): Promise<number[]> {
    const over = new AbortController();
    const late = pause(this.#stepPatienceMs, AbortSignal.any([signal, over.signal])).then(() => []);
    try {
      return await Promise.race([Promise.all(steps), late]);
    } finally {
      over.abort();
    }
  }

  async #alone(name: string, step: () => Promise<number>, signal: AbortSignal): Promise<number> {
    if (this.#underWay.has(name)) return resyncMs;
    const beganMs = performance.now();
    const stepping = step();
    this.#underWay.set(name, stepping);
    try {
      return await stepping;
    } catch (error) {
      // Who waited for it is told, and tells.
      const isLate = performance.now() - beganMs >= this.#stepPatienceMs;
      if (isLate && !signal.aborted) this.#log.warn({ resident: name }, `resident jobs: ${messageOf(error)}`);
      throw error;
    } finally {
      this.#underWay.delete(name);
    }
  }

  async #convergeOne(name: string, resident: Resident | undefined, signal: AbortSignal): Promise<number> {
    const container = this.#containers.all().find(({ labels }) => residentOf(labels) === name);
    if (resident === undefined && container === undefined) return resyncMs;
    const { nextStartAt } = this.#noteEnd(name, container);
    const now = performance.now();
    const action = residentAction(resident, container, nextStartAt, now);
    if (!(await this.#mayRun(name))) {
      this.#admitted.delete(name);
      if (container?.state === 'running') await this.#stop(container, signal);
      return resyncMs;
    }
    if (container?.state === 'running') this.#admitted.add(name);
    else if (action !== 'wait' && !(await this.#isAdmitted(name, signal))) return resyncMs;
    switch (action) {
      case 'none':
        if (container !== undefined) await this.#noteVolumes(name, container.volumes);
        return resyncMs;
      case 'wait':
        return nextStartAt - now;
      case 'replace':
      case 'create':
        if (resident !== undefined) await this.#replace(resident, container, signal);
        return resyncMs;
      case 'start':
        if (container !== undefined)
          await this.#startAgain(name, container, { hasSpec: resident !== undefined, signal });
        break;
    }
    return resyncMs;
  }

  async #replace(resident: Resident, container: Container | undefined, signal: AbortSignal): Promise<void> {
    if (container !== undefined) {
      // What comes next is there before the present one goes.
      await this.#engine.ensureImage(resident.template.image, { signal });
      await this.#remove(container, signal);
    }
    await this.#create(resident, signal);
  }

  async #isAdmitted(name: string, signal: AbortSignal): Promise<boolean> {
    if (this.#admitted.has(name)) return true;
    if (!(await this.#mayStart(name, signal))) return false;
    this.#admitted.add(name);
    return true;
  }

  async #startAgain(
    name: string,
    container: Container,
    { hasSpec, signal }: { hasSpec: boolean; signal: AbortSignal },
  ): Promise<void> {
    try {
      await this.#start(name, container.id, signal);
    } catch (error) {
      // What somebody began to remove, in vain, the engine never starts again: the next attempt makes another.
      if (hasSpec && hasCode(error, 'conflict')) await this.#remove(container, signal);
      throw error;
    }
  }

  #noteEnd(name: string, container: Container | undefined): { nextStartAt: number } {
    const known = this.#failures.get(name) ?? { count: 0, nextStartAt: 0 };
    const endedAtMs = container?.endedAtMs;
    if (container?.state !== 'exited' || endedAtMs === known.endedAtMs) return known;
    const count = countFailures(known.count, (endedAtMs ?? 0) - (container.startedAtMs ?? 0));
    const next = { count, nextStartAt: performance.now() + restartDelayMs(count), endedAtMs };
    this.#failures.set(name, next);
    return next;
  }

  async #create(resident: Resident, signal: AbortSignal): Promise<void> {
    if (await this.#isLost(resident, signal)) return;
    const ref = await this.#engine.ensureImage(resident.template.image, { signal });
    const spec = residentSpec(resident, ref, this.#host);
    for (const volume of spec.volumes) await this.#engine.ensureVolume(volume.name, { signal });
    let id: string;
    try {
      id = await this.#engine.create(spec, { signal });
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
      ({ id } = await this.#engine.inspect(containerName(this.#host.cluster, residentId(resident.name)), { signal }));
    }
    await this.#start(resident.name, id, signal);
  }

  async #isLost({ name, template }: Resident, signal: AbortSignal): Promise<boolean> {
    const had = (await this.#volumesHad())[name];
    const wanted = template.volumes.map((volume) => volumeName(this.#host.cluster, volume.name));
    const isThere = await Promise.all(wanted.map((volume) => this.#engine.hasVolume(volume, { signal })));
    const there = wanted.filter((_, at) => isThere[at]);
    const lost = lostVolumes(wanted, { had, there });
    if (lost.length === 0) {
      this.#lost.delete(name);
      return false;
    }
    if (!this.#lost.has(name)) {
      this.#log.error(
        { resident: name, volumes: lost },
        `the engine has ${lost.join(', ')} no more, and ${name} does not begin with nothing: where a disk of the engine is not mounted, mount it and start the engine again; where it is gone for good, other hosts that know what was in it make another`,
      );
    }
    this.#lost.add(name);
    return true;
  }

  async #volumesHad(): Promise<VolumesHad> {
    if (this.#had !== undefined) return this.#had;
    try {
      this.#had = await readVolumesHad(this.#dir);
    } catch (error) {
      if (!hasCode(error, 'invalid')) throw error;
      this.#log.error(`which volumes resident jobs have had is not known any more: ${messageOf(error)}`);
      this.#had = {};
    }
    return this.#had;
  }

  /** Of one that runs. A disk without room is in the way of nothing that runs already. */
  async #noteVolumes(name: string, mounted: readonly string[]): Promise<void> {
    const had = await this.#volumesHad();
    const volumes = mounted.toSorted();
    if (had[name]?.join() === volumes.join()) return;
    const next = { ...had, [name]: volumes };
    try {
      await writeVolumesHad(this.#dir, next);
      this.#had = next;
    } catch (error) {
      this.#log.warn(`noting the volumes of ${name}: ${messageOf(error)}`);
    }
  }

  async #start(name: string, id: string, signal: AbortSignal): Promise<void> {
    this.#log.info({ resident: name }, 'starting a resident job');
    this.#containers.put(await this.#engine.start(id, { signal }));
  }

  async #stop(container: Container, signal: AbortSignal): Promise<void> {
    this.#log.warn(
      { resident: residentOf(container.labels) },
      'stopping a resident job that may not run here any more',
    );
    await this.#engine.stop(container.id, { timeoutMs: stopMs, signal });
    // Else it would be taken for one that runs, and may, at the next look.
    await this.#containers.refresh(signal);
  }

  async #remove(container: Container, signal: AbortSignal): Promise<void> {
    this.#log.info({ resident: residentOf(container.labels) }, 'removing a resident job that changed or is gone');
    await this.#engine.stop(container.id, { timeoutMs: stopMs, signal });
    await this.#engine.remove(container.id, { signal });
    this.#containers.delete(container.id);
  }
}
