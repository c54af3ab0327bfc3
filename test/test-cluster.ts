/** A cluster on hosts of its own, each in a network namespace, used as a person would: `npm run up`, `git`, `bin/flynn`, HTTP. */
import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { join, resolve } from 'node:path';
import { joinHosts } from '@flynn/bootstrap/test-hosts/cluster';
import { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { connectStore, untilStoreLinked, untilTogether } from '@flynn/bootstrap/test-hosts/cluster-view';
import { ensureImageStore, linkImages } from '@flynn/bootstrap/test-hosts/image-store';
import { suiteHosts } from '@flynn/bootstrap/test-hosts/network';
import type { ExecOptions, ExecResult } from '@flynn/bootstrap/test-hosts/test-host';
import { waitFor } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { end, endsWithProcess } from './alive.ts';
import { type Answer, answerTo } from './answer.ts';
import { Checkout } from './checkout.ts';
import { platformImages } from './images.ts';
import { type Cut, NetworkFaults } from './network-faults.ts';

const root = resolve(import.meta.dirname, '..');

export type RunOptions = ExecOptions & {
  /** The exit code that is right; `any` leaves the verdict to the caller. Default 0. */
  code?: number | 'any';
  /** Where it runs. Default: the first host. */
  host?: ClusterHost;
};

export type ClusterOptions = {
  /** Default 1. They take as many indices. */
  hosts?: number;
  /** Who begins with the platform's images. Default: the first. */
  haveImages?: 'first' | 'all' | 'none';
  /** Sizes of disks of their own, by a host's place; others share this machine's. */
  diskBytes?: Readonly<Record<number, number>>;
  /** Places of hosts behind NAT routers of their own. */
  behindNat?: readonly number[];
};

export type Job = { id: string; type: string; state: string; restarts: number };

export class TestCluster implements AsyncDisposable {
  readonly hosts: readonly ClusterHost[];
  /** The first: the one `up` makes the cluster on. */
  readonly host: ClusterHost;
  readonly directory: string;
  readonly domain = 'flynn.localhost';
  readonly #faults: NetworkFaults;

  private constructor(hosts: readonly [ClusterHost, ...ClusterHost[]], directory: string) {
    this.hosts = hosts;
    this.host = hosts[0];
    this.directory = directory;
    this.#faults = new NetworkFaults(hosts[0].name);
  }

  /** Hosts with their engines, and no cluster yet. `index` tells clusters that exist at once apart: see `hosts`. */
  static async create(index: number, options: ClusterOptions = {}): Promise<TestCluster> {
    const hostAt = (place: number): ClusterHost =>
      new ClusterHost(suiteHosts, `host${index + place}`, index + place, {
        isBehindNat: options.behindNat?.includes(place) ?? false,
      });
    const others = Array.from({ length: (options.hosts ?? 1) - 1 }, (_, place) => hostAt(place + 1));
    const hosts = [hostAt(0), ...others] as const;
    for (const host of hosts) endsWithProcess(host);
    try {
      for (const [place, host] of hosts.entries()) {
        const diskBytes = options.diskBytes?.[place];
        await host.create(diskBytes === undefined ? {} : { diskBytes });
      }
      const { haveImages = 'first' } = options;
      const tags = haveImages === 'none' ? [] : await platformImages();
      const store = tags.length === 0 ? undefined : await ensureImageStore(suiteHosts, tags);
      const having = haveImages === 'all' ? hosts : hosts.slice(0, 1);
      if (store !== undefined) for (const host of having) await linkImages(store, host);
      await Promise.all(hosts.map((host) => host.startEngine()));
      await hosts[0].copyImages(tags);
      return new TestCluster([...hosts], await mkdtemp(join(hosts[0].directory, 'work-')));
    } catch (error) {
      await Promise.all(hosts.map(end));
      throw error;
    }
  }

  /** For command lines that a shell or another program runs on the host. */
  readonly flynnCommand = join(root, 'bin/flynn');
  readonly hostCommand = join(root, 'bin/flynn-host');

  /** Settings of `up`, `down` and the CLI that keep this cluster apart from any other on the machine. */
  get env(): Record<string, string> {
    return {
      ...this.host.settings,
      HOME: this.directory,
      FLYNN_CONFIG_DIR: join(this.directory, 'config'),
      FLYNN_RANGE: '100.100.128.0/17',
      FLYNN_SUBNET: '100.100.200.0/24',
      GIT_AUTHOR_NAME: 'A Person',
      GIT_AUTHOR_EMAIL: 'person@example.com',
      GIT_COMMITTER_NAME: 'A Person',
      GIT_COMMITTER_EMAIL: 'person@example.com',
    };
  }

  async exec(args: readonly [string, ...string[]], options: RunOptions = {}): Promise<ExecResult> {
    const { code = 0, host = this.host, ...rest } = options;
    const result = await host.exec(args, {
      cwd: this.directory,
      timeoutMs: 300_000,
      ...rest,
      env: { ...this.env, ...rest.env },
    });
    return judged(args.join(' '), code, result);
  }

  /** `up` on the first host; the others join. */
  async up(options?: RunOptions): Promise<ExecResult> {
    const result = await this.upFirst(options);
    await this.joinOthers();
    return result;
  }

  upFirst(options: RunOptions = {}): Promise<ExecResult> {
    const { code = 0, host = this.host, ...rest } = options;
    return judged('up', code, host.tryScript('up', [], { ...rest, env: { ...this.env, ...rest.env } }));
  }

  /** Until they are in the cluster, and etcd has its members. */
  async joinOthers(): Promise<void> {
    if (this.hosts.length === 1) return;
    await joinHosts(this.host, this.hosts.slice(1));
    await untilTogether(this.hosts);
  }

  /** `up --join TOKEN` on a host. */
  async join(host: ClusterHost, token: string, { code = 0 }: { code?: number } = {}): Promise<ExecResult> {
    return judged('up --join', code, host.tryScript('up', ['--join', token]));
  }

  /** On one host: the cluster is gone with its last. */
  down({ code = 0, host = this.host, ...rest }: RunOptions = {}): Promise<ExecResult> {
    const env = host === this.host ? this.env : {};
    return judged('down', code, host.tryScript('down', [], { ...rest, env }));
  }

  flynn(args: readonly string[], options?: RunOptions): Promise<ExecResult> {
    return this.exec([this.flynnCommand, ...args], options);
  }

  docker(...args: string[]): Promise<ExecResult> {
    return this.dockerOf(this.host, ...args);
  }

  dockerOf(host: ClusterHost, ...args: string[]): Promise<ExecResult> {
    return this.exec(['docker', '-H', `unix://${host.dockerSocket}`, ...args], { host });
  }

  /** A git checkout of a sample app, committed, with its app created on the cluster unless told otherwise. */
  async checkout(sample: string, name = sample, options: { isCreated?: boolean } = {}): Promise<Checkout> {
    const directory = join(this.directory, 'apps', name);
    await rm(directory, { recursive: true, force: true });
    await cp(join(root, 'test/apps', sample), directory, { recursive: true });
    const checkout = new Checkout(this, name, directory);
    await this.exec(['git', 'init', '--quiet', '--initial-branch=main'], { cwd: directory });
    await checkout.commit('first');
    if (options.isCreated ?? true) await this.flynn(['create', name], { cwd: directory });
    return checkout;
  }

  /**
   * One request to `NAME.DOMAIN` through the router of a host, by default the first, from outside the hosts. Waits for the
   * answer until the signal; without one, 30 s.
   */
  get(
    name: string,
    path = '/',
    options: { signal?: AbortSignal; host?: ClusterHost; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    return answerTo(
      request({
        host: (options.host ?? this.host).address,
        port: 80,
        path,
        agent: false,
        headers: { ...options.headers, host: name.includes('.') ? name : `${name}.${this.domain}` },
      }),
      options.signal,
    );
  }

  /** The jobs `flynn ps` tells of, as JSON. */
  async jobs(app: string, options: { host?: ClusterHost } = {}): Promise<Job[]> {
    return JSON.parse((await this.flynn(['-a', app, 'ps', '--json'], options)).stdout) as Job[];
  }

  /** Until exactly so many jobs of a process type run; which. */
  async untilRunning(
    app: string,
    type: string,
    count: number,
    options: { deadlineMs?: number; host?: ClusterHost } = {},
  ): Promise<Job[]> {
    return waitFor(
      async () => {
        const running = (await this.jobs(app, options)).filter((job) => job.type === type && job.state === 'running');
        if (running.length !== count) throw new Error(`${running.length} run`);
        return running;
      },
      { what: `${count} ${type} jobs of ${app} to run`, deadlineMs: options.deadlineMs ?? 180_000, intervalMs: 300 },
    );
  }

  /** Until every host is in the cluster, the members of etcd reach each other, and the app answers 200 through each router. */
  async untilHealthy(app = 'hello', hosts = this.hosts): Promise<void> {
    await untilTogether(hosts);
    await untilStoreLinked(hosts);
    for (const host of hosts) await this.untilAnswers(app, { host });
  }

  /** The first 200. Jobs that take nobody's place are in a router's table soon after they run, and not before. */
  async untilAnswers(app: string, options: { host?: ClusterHost; deadlineMs?: number } = {}): Promise<Answer> {
    const { host = this.host, deadlineMs = 180_000 } = options;
    return waitFor(
      async () => {
        const answer = await this.get(app, '/', { host });
        return answer.status === 200 && answer;
      },
      { what: `${app} to answer at ${host.name}`, deadlineMs, intervalMs: 200 },
    );
  }

  /** Ids of running containers of an app's process type. */
  async containers(app: string, type: string, host = this.host): Promise<string[]> {
    const { stdout } = await this.dockerOf(
      host,
      'ps',
      '-q',
      '--no-trunc',
      '--filter',
      `label=flynn.meta.flynn.app_name=${app}`,
      '--filter',
      `label=flynn.meta.flynn.type=${type}`,
    );
    return stdout.split('\n').filter((line) => line !== '');
  }

  /** The host as its containers reach it. */
  readonly gateway = '100.100.200.1';

  /** Hosts on one side and the other do not reach each other any more, until `heal`. Both reach this machine. */
  partition(a: readonly ClusterHost[], b: readonly ClusterHost[], cut?: Cut): Promise<void> {
    return this.#faults.cut(a, b, cut);
  }

  heal(): Promise<void> {
    return this.#faults.heal();
  }

  /** The cluster's store, with a host's certificate. The caller closes it. */
  store(): Promise<Store> {
    return connectStore(this.hosts);
  }

  /** The key of the admin that `up` made. */
  async adminKey(): Promise<string> {
    const file = join(this.env['FLYNN_CONFIG_DIR'] ?? '', 'clusters.json');
    const { clusters } = JSON.parse(await readFile(file, 'utf8')) as { clusters: { key: string }[] };
    const [cluster] = clusters;
    assert.ok(cluster !== undefined, `${file} knows no cluster`);
    return cluster.key;
  }

  /** Every key in it. */
  async storeKeys(): Promise<string[]> {
    await using store = await this.store();
    return (await store.list('/flynn/')).entries.map(({ key }) => key);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#faults[Symbol.asyncDispose]();
    await Promise.all(this.hosts.map(end));
  }
}

async function judged(
  what: string,
  code: number | 'any',
  running: ExecResult | Promise<ExecResult>,
): Promise<ExecResult> {
  const result = await running;
  if (code === 'any') return result;
  const said = `--- stdout\n${result.stdout}\n--- stderr\n${result.stderr}`;
  assert.equal(result.code, code, `"${what}" ended with ${result.code}, not ${code}\n${said}`);
  return result;
}
