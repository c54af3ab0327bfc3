/** For tests: a controller with a datastore that an app has, whose members dump and restore what is in a buffer. */
import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { once } from 'node:events';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import { waitFor } from '@flynn/kit/retry';
import type { Again } from '@flynn/resource/reconciler';
import type { HostJob } from '@flynn/scheduler/cell';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { providers, resources } from '../providers/api.ts';
import { ownedBy } from '../resources.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { TestHistory } from '../datastore-history/test-history.ts';
import { startTestController } from '../testing.ts';
import type { TestController, TestControllerOptions } from '../testing.ts';
import { beginPlan } from './beginning.ts';
import { stepDatastore } from './steps.ts';
import type { StepOptions } from './subject.ts';
import { Turns } from './turns.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';

const chunkBytes = 64 * 1024;

/** What a program does in the place of what it should. */
export type Misbehaviour =
  | { is: 'fails'; code: number; says: string; afterBytes?: number }
  /** Its connection breaks. */
  | { is: 'breaks'; afterBytes: number }
  /** It says nothing any more. */
  | { is: 'hangs'; afterBytes: number }
  /** It does what it is to; then its connection breaks, or a signal ends it. */
  | { is: 'unheard'; code?: number }
  /** It ends well before it has read anything. */
  | { is: 'ends early' };

/** What is in a datastore, and the programs beside its members, which all go to that. */
export class TestDatabase {
  content = randomBytes(200_000);
  /** Each for one run, in their order. */
  readonly misbehaviours: Misbehaviour[] = [];
  /** Of each run: what it was to do, and beside which job. */
  readonly runs: string[] = [];
  /** Its log, which is none of the runs. */
  readonly history = new TestHistory(() => Date.now());
  /** Before anything else is done. */
  onRun: () => Promise<void> = async () => undefined;

  attach({ hosts }: TestController): void {
    for (const host of hosts) host.streams = (command, socket, job) => this.run(command, socket, job);
  }

  async run(command: readonly string[], socket: Duplex, job: HostJob): Promise<void> {
    if (command.includes('collect') || command.includes('base') || command[0]?.endsWith('-recover') === true) {
      await this.history.run(command, socket);
      return;
    }
    const task = command.at(-1) ?? '';
    this.runs.push(`${task} ${job.id}`);
    await this.onRun();
    const amiss = this.misbehaviours.shift();
    if (amiss?.is === 'ends early') {
      socket.resume();
      this.#exit(socket, 0);
      return;
    }
    await (task === 'dump' ? this.#dump(socket, amiss) : this.#restore(socket, amiss));
  }

  async #dump(socket: Duplex, amiss: Misbehaviour | undefined): Promise<void> {
    const end = amiss === undefined ? this.content.length : bytesBefore(amiss);
    for (let at = 0; at < end; at += chunkBytes) {
      const data = this.content.subarray(at, Math.min(at + chunkBytes, end));
      if (!socket.write(encodeFrame({ kind: 'stdout', data }))) await once(socket, 'drain');
    }
    // What nobody reads keeps a connection from closing.
    socket.resume();
    this.#end(socket, amiss);
  }

  async #restore(socket: Duplex, amiss: Misbehaviour | undefined): Promise<void> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    let isOver = false;
    // To its end, whatever came of it: a connection with something unread in it is reset.
    for await (const frame of readFrames(socket)) {
      if (isOver) continue;
      if (frame.kind === 'stdin') chunks.push(frame.data);
      bytes += frame.kind === 'stdin' ? frame.data.length : 0;
      const isCut = amiss !== undefined && amiss.is !== 'unheard' && bytes >= bytesBefore(amiss);
      isOver = isCut || frame.kind === 'stdin-end';
      if (!isCut && isOver) this.content = Buffer.concat(chunks);
      if (isOver) this.#end(socket, isCut || amiss?.is === 'unheard' ? amiss : undefined);
    }
  }

  #end(socket: Duplex, amiss: Misbehaviour | undefined): void {
    if (amiss?.is === 'breaks' || (amiss?.is === 'unheard' && amiss.code === undefined)) {
      socket.destroy();
      return;
    }
    if (amiss?.is === 'hangs') return;
    if (amiss?.is === 'fails') socket.write(encodeFrame({ kind: 'stderr', data: Buffer.from(amiss.says) }));
    this.#exit(socket, amiss?.is === 'fails' || amiss?.is === 'unheard' ? (amiss.code ?? 0) : 0);
  }

  #exit(socket: Duplex, code: number): void {
    socket.end(encodeFrame({ kind: 'exit', code }));
  }
}

function bytesBefore(amiss: Misbehaviour): number {
  return 'afterBytes' in amiss ? (amiss.afterBytes ?? 0) : 0;
}

export type DatastoreWorld = Awaited<ReturnType<typeof startDatastoreWorld>>;

/** The app is shop, its datastore shop-postgres. Unless the worker backs up, nothing is done but by `step`. */
export async function startDatastoreWorld(options: TestControllerOptions = {}) {
  const blobStore = await startTestBlobs();
  const world = await startTestController({
    hosts: 2,
    blobStoreUrl: blobStore.url,
    applianceImages: { postgres: 'flynn/postgres:old' },
    ...options,
  });
  const database = new TestDatabase();
  database.attach(world);
  await world.deployApp('shop', { web: {} });
  const { appId, resourceId } = await addDatastore(world, 'shop');
  const { deps } = world;
  return {
    world,
    blobs: blobStore.blobs,
    database,
    appId,
    resourceId,
    params: { resource: resourceId },
    plan: () => deps.resources.get(backupPlanType, appId),
    records: () => deps.resources.list(datastoreBackupType, { owner: ownedBy(appId) }),
    /** One look in each lane at that moment; what the last one that has something to do says. */
    async step(nowMs: number, more: Partial<StepOptions> = {}) {
      const options = { signal: new AbortController().signal, turns: new Turns(), ...more };
      const at = { ...deps, now: () => nowMs };
      await beginPlan(at, appId, options);
      let again: Again | undefined;
      for (const lane of ['restores', 'asked', 'scheduled'] as const) {
        again = (await stepDatastore(at, blobStore.blobs, appId, { ...options, lane })) ?? again;
      }
      return again;
    },
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]();
      await blobStore[Symbol.asyncDispose]();
    },
  };
}

/** Its members run when it answers. */
export async function addDatastore(world: TestController, app: string): Promise<{ appId: string; resourceId: string }> {
  const { client, deps } = world;
  const isThere = async () => (await client.call(providers.list, {})).some(({ name }) => name === 'postgres');
  await waitFor(isThere, { what: 'the provider postgres', deadlineMs: 30_000, intervalMs: 5 });
  const params = { provider: 'postgres' };
  const { id: resourceId, externalId: appId = '' } = await client.call(resources.create, {
    params,
    body: { apps: [app] },
  });
  await world.jobsOf(`${app}-postgres`, 2);
  const isSeen = () => statusesOfApp(deps.cell, appId).filter(({ state }) => state === 'running').length === 2;
  await waitFor(isSeen, { what: 'its members', deadlineMs: 30_000, intervalMs: 5 });
  return { appId, resourceId };
}
