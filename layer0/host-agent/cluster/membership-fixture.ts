/** A host as etcd's membership sees it, for tests: an agent's part in it, and its resident member as a container. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { readTextFile } from '@flynn/kit/files';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdMembership } from '@flynn/store/etcd-membership';
import { createRunner } from '@flynn/store/etcd-runner';
import type { EtcdRunner } from '@flynn/store/etcd-runner';
import { z } from 'zod';
import { etcdResident, etcdVolume, residentFile } from './etcd-resident.ts';
import type { Pace } from './membership-leader.ts';
import { startMembership } from './membership.ts';
import { leaseSubnet, releaseSubnet } from './subnets.ts';

const residentSchema = z.object({
  template: z.object({ command: z.array(z.string()), volumes: z.array(z.object({ name: z.string() })) }),
});
const cluster = 'test';
const ttlSeconds = 60;
const metricsPort = 2381;

export type SimulatedOptions = {
  hostId: string;
  address: string;
  folder: string;
  /** Where `authority.pem`, `host.pem` and `host-key.pem` are. */
  tlsFolder: string;
  tls: EtcdTls;
  endpoints: readonly string[];
  pace: Pace;
  /** Of its member's container; `network`: which has the host's address. */
  etcd: { image: string; network: string };
};

export class SimulatedHost implements AsyncDisposable {
  readonly hostId: string;
  readonly address: string;
  readonly store: EtcdClient;
  /** How often its agent has looked for data that earlier members left. */
  looks = 0;
  readonly #options: SimulatedOptions;
  readonly #machine = new TaskGroup();
  #agent = new TaskGroup();
  #member: { text: string; runner: EtcdRunner } | undefined;
  #lost: string | undefined;

  constructor(options: SimulatedOptions) {
    this.#options = options;
    this.hostId = options.hostId;
    this.address = options.address;
    this.store = connectEtcd({ endpoints: options.endpoints, tls: options.tls, log: silentLogger() });
  }

  /** The member of the host that makes the cluster, as bootstrap leaves it. */
  async makeCluster(): Promise<void> {
    const { hostId, address } = this;
    const resident = etcdResident({ cluster, hostId, address, stateDir: this.#stateDir, image: 'etcd' });
    await mkdir(join(this.#stateDir, 'resident'), { recursive: true });
    await writeFile(residentFile(this.#stateDir), JSON.stringify(resident));
  }

  /** The machine runs what its disk says; its agent follows the cluster. */
  async start(): Promise<void> {
    await mkdir(this.#stateDir, { recursive: true });
    this.#machine.run('resident', (signal) => this.#runResident(signal));
    await leaseSubnet(this.store, {
      hostId: this.hostId,
      address: this.address,
      range: '100.100.0.0/16',
      now: Number(this.hostId.slice(1)),
    });
    const lease = await this.store.grantLease({ ttlSeconds });
    await this.store.transact({ then: [{ put: cellKeys.host(this.hostId), value: '{}', lease: lease.id }] });
    await this.startAgent();
  }

  async startAgent(): Promise<void> {
    const { tls, pace } = this.#options;
    this.#agent = new TaskGroup();
    const { store, hostId } = this;
    await startMembership(
      {
        cluster,
        hostId,
        stateDir: this.#stateDir,
        store,
        openMembership: () => etcdMembership({ endpoints: () => store.endpoints, tls }),
        hasLostData: () => this.#lost !== undefined,
        removeOldData: (kept) => this.#removeOldData(kept),
        log: silentLogger(),
        pace,
      },
      this.#agent,
    );
  }

  /** The agent ends; what runs on the host runs on. */
  async stopAgent(): Promise<void> {
    await this.#agent.stop();
  }

  /** The member ends as by a crash, and is started again. */
  async crashMember(): Promise<void> {
    await this.#member?.runner.kill();
    await this.#member?.runner.start();
  }

  /** The member ends, and does not start any more: its data is of no use to it. */
  async breakMember(): Promise<void> {
    await this.#member?.runner.kill();
  }

  /** Whether its member leads the others. */
  async isLeader(): Promise<boolean> {
    const signal = AbortSignal.timeout(1_000);
    const response = await fetch(`http://${this.address}:${metricsPort}/metrics`, { signal });
    return /^etcd_server_is_leader 1$/m.test(await response.text());
  }

  async leave(): Promise<void> {
    await releaseSubnet(this.store, this.hostId);
  }

  /** As when the machine is set up anew: nothing of the member is left. */
  async wipe(): Promise<void> {
    await this.stopAgent();
    await rm(residentFile(this.#stateDir));
    await waitFor(() => this.#member === undefined, { what: 'the member to end', deadlineMs: 60_000 });
    await rm(this.#volumesDir, { recursive: true });
  }

  /** As when the engine finds another disk: what the member had is gone, and all else is as it was. */
  async loseData(): Promise<void> {
    this.#lost = this.#member?.text;
    await waitFor(() => this.#member === undefined, { what: 'the member to end', deadlineMs: 60_000 });
    await rm(this.#volumesDir, { recursive: true });
  }

  /** Whose data the disk holds. */
  async volumes(): Promise<string[]> {
    return existsSync(this.#volumesDir) ? await readdir(this.#volumesDir) : [];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.stop();
    await this.#machine.stop();
    await this.store.close();
    await this.#member?.runner.remove();
  }

  get #stateDir(): string {
    return join(this.#options.folder, this.hostId);
  }

  get #volumesDir(): string {
    return join(this.#stateDir, 'volumes');
  }

  async #removeOldData(kept: readonly string[]): Promise<void> {
    for (const volume of await this.volumes()) {
      const isCurrent = kept.includes(volume) || volume === etcdVolume(undefined);
      if (!isCurrent) await rm(join(this.#volumesDir, volume), { recursive: true, force: true });
    }
    this.looks += 1;
  }

  /** What the agent's `Residents` do with a container. */
  async #runResident(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const text = await readTextFile(residentFile(this.#stateDir));
      if (text !== this.#lost) this.#lost = undefined;
      const wanted = this.#lost === undefined ? text : undefined;
      if (wanted !== this.#member?.text) {
        await this.#member?.runner.remove();
        this.#member = undefined;
        if (wanted !== undefined) this.#member = { text: wanted, runner: await this.#startMember(wanted) };
      }
      await pause(50, signal);
    }
  }

  /** With the flags it is given, but with files of this test. */
  async #startMember(resident: string): Promise<EtcdRunner> {
    const { template } = residentSchema.parse(JSON.parse(resident));
    const { tlsFolder, etcd } = this.#options;
    const own = [
      ...template.command
        .filter((flag) => !flag.startsWith('--data-dir='))
        .map((flag) => flag.replace('/tls/', `${tlsFolder}/`)),
      `--listen-metrics-urls=http://0.0.0.0:${metricsPort}`,
      '--unsafe-no-fsync',
    ];
    const dataDir = join(this.#volumesDir, template.volumes[0]?.name ?? '');
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const runner = await createRunner({ ...etcd, dataDir }, own, tlsFolder);
    try {
      await runner.start();
    } catch (error) {
      await runner.remove();
      throw error;
    }
    return runner;
  }
}
