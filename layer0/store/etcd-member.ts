/** One etcd member on loopback, for tests: a cluster of its own, or one of several (see `etcd-cluster.ts`). */
import { waitFor } from '@flynn/kit/retry';
import { freePorts } from '@flynn/kit/testing-ports';
import { createRunner } from './etcd-runner.ts';
import type { EtcdRunner, RunnerOptions } from './etcd-runner.ts';

export interface EtcdMember extends AsyncDisposable {
  /** For connectEtcd's `endpoints`. */
  readonly endpoint: string;
  readonly port: number;
  /** Ends it as a power cut would; its data stays. */
  kill(): Promise<void>;
  /** Starts it again with the data it had, and resolves when it serves. */
  start(): Promise<void>;
  /** Stops it in its tracks: connections stay open, nothing answers. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Whether it leads, as it sees it itself; it has to run. */
  isLeader(): Promise<boolean>;
  /** Ends it and removes its data, unless `dataDir` was given. */
  stop(): Promise<void>;
}

export type EtcdMemberOptions = RunnerOptions & {
  /** For clients. Default: a free one. */
  port?: number;
  /** As large as its database may get. Default: etcd's own. */
  quotaBytes?: number;
};

/** Resolves when the member serves. It does not sync to disk: not for data anyone wants to keep. */
export async function startEtcdMember(options: EtcdMemberOptions = {}): Promise<EtcdMember> {
  const [port = 0, peerPort = 0, statusPort = 0] = await freePorts(3);
  const place = { name: 'test', port: options.port ?? port, peerPort, statusPort };
  const { quotaBytes } = options;
  const group = { members: [place], ...(quotaBytes === undefined ? {} : { quotaBytes }) };
  const member = await createMember(options, place, group);
  try {
    await member.start();
  } catch (error) {
    await member.stop();
    throw error;
  }
  return member;
}

/** The member's ports on loopback. `statusPort` serves its health and metrics, without TLS. */
export type MemberPlace = Readonly<{ name: string; port: number; peerPort: number; statusPort: number }>;

export type MemberGroup = {
  members: readonly MemberPlace[];
  /** Holds `ca.pem`, `member.pem` and `member-key.pem`; with it everybody shows a certificate of that authority. */
  tlsFolder?: string;
  quotaBytes?: number;
};

/** A member that was not started yet. */
export async function createMember(
  options: RunnerOptions,
  place: MemberPlace,
  group: MemberGroup,
): Promise<RunnableMember> {
  const { tlsFolder } = group;
  return new RunnableMember(place, group, await createRunner(options, argumentsOf(place, group), tlsFolder));
}

export class RunnableMember implements EtcdMember {
  readonly endpoint: string;
  readonly port: number;
  readonly #statusUrl: string;
  readonly #runner: EtcdRunner;

  constructor(place: MemberPlace, group: MemberGroup, runner: EtcdRunner) {
    this.port = place.port;
    this.endpoint = urlOf(place.port, group);
    this.#statusUrl = `http://127.0.0.1:${place.statusPort}`;
    this.#runner = runner;
  }

  async start(): Promise<void> {
    await this.launch();
    await this.untilHealthy();
  }

  /** Without waiting: of several members none serves before most of them run. */
  async launch(): Promise<void> {
    await this.#runner.start();
  }

  async untilHealthy(): Promise<void> {
    await waitFor(async () => /"health":\s*"true"/.test(await this.#status('/health')), {
      what: `etcd at ${this.endpoint}`,
      deadlineMs: 90_000,
    });
  }

  async isLeader(): Promise<boolean> {
    return /^etcd_server_is_leader 1$/m.test(await this.#status('/metrics'));
  }

  kill(): Promise<void> {
    return this.#runner.kill();
  }

  freeze(): Promise<void> {
    return this.#runner.freeze();
  }

  thaw(): Promise<void> {
    return this.#runner.thaw();
  }

  stop(): Promise<void> {
    return this.#runner.remove();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #status(path: string): Promise<string> {
    const response = await fetch(`${this.#statusUrl}${path}`, { signal: AbortSignal.timeout(1_000) });
    return await response.text();
  }
}

function urlOf(port: number, { tlsFolder }: MemberGroup): string {
  return `${tlsFolder === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
}

function argumentsOf(place: MemberPlace, group: MemberGroup): string[] {
  const client = urlOf(place.port, group);
  const peer = urlOf(place.peerPort, group);
  return [
    '--unsafe-no-fsync',
    `--name=${place.name}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=${group.members.map((m) => `${m.name}=${urlOf(m.peerPort, group)}`).join(',')}`,
    `--listen-metrics-urls=http://127.0.0.1:${place.statusPort}`,
    '--max-txn-ops=8192',
    '--log-level=error',
    ...(group.quotaBytes === undefined ? [] : [`--quota-backend-bytes=${group.quotaBytes}`]),
    ...(group.tlsFolder === undefined ? [] : tlsArguments(group.tlsFolder)),
  ];
}

function tlsArguments(folder: string): string[] {
  return ['', 'peer-'].flatMap((who) => [
    `--${who}cert-file=${folder}/member.pem`,
    `--${who}key-file=${folder}/member-key.pem`,
    `--${who}trusted-ca-file=${folder}/ca.pem`,
    `--${who}client-cert-auth`,
  ]);
}
