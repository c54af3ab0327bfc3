/** Test hosts with nothing of flynn on them, which get it from a bundle and become one cluster. */
import { symlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import type { ExecResult } from '@flynn/bootstrap/test-hosts/test-host';
import { FlynnError } from '@flynn/kit/errors';
import { execBare } from './bare-host.ts';
import { type ClusterOptions, TestCluster } from './test-cluster.ts';

type Command = readonly [string, ...string[]];

export class InstalledHosts implements AsyncDisposable {
  readonly cluster: TestCluster;
  /** Whatever a person would have typed so far, on any of them. */
  typed = 0;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
  }

  static async create(
    index: number,
    hosts: number,
    options: Pick<ClusterOptions, 'diskBytes'> = {},
  ): Promise<InstalledHosts> {
    return new InstalledHosts(await TestCluster.create(index, { ...options, hosts, haveImages: 'none' }));
  }

  /** Its output, as it comes and as a whole; `internal` with its end when it fails. */
  async type(host: ClusterHost, args: Command, onLine: (line: string) => void = () => {}): Promise<string> {
    const { code, stdout, stderr } = await this.try(host, args, onLine);
    if (code === 0) return stdout;
    const end = `${stdout}${stderr}`.trim().split('\n').slice(-20).join('\n');
    throw new FlynnError('internal', `${args.slice(0, 3).join(' ')} on ${host.name} ended with ${code}:\n${end}`);
  }

  /** As `type`, of what may fail. */
  async try(host: ClusterHost, args: Command, onLine: (line: string) => void = () => {}): Promise<ExecResult> {
    this.typed += 1;
    const env: Record<string, string> =
      host === this.cluster.host ? { FLYNN_RANGE: '100.100.128.0/17', FLYNN_SUBNET: '100.100.200.0/24' } : {};
    return await execBare(host, args, { onLine, env });
  }

  async install(host: ClusterHost, bundle: string, ...more: readonly string[]): Promise<void> {
    await this.type(host, ['sh', join(dirname(bundle), 'install'), '--bundle', bundle, ...more]);
  }

  /** The first one makes the cluster and waits for the others, each of which does what `join` says with the token it prints. */
  async form(join: (host: ClusterHost, token: string) => Promise<void>, report: (line: string) => void): Promise<void> {
    const [first, ...others] = this.cluster.hosts;
    if (first === undefined) throw new FlynnError('internal', 'there are no hosts');
    const addresses = this.cluster.hosts.map(({ address }) => address);
    const told = Promise.withResolvers<string>();
    const bootstrap = this.type(
      first,
      ['flynn-host', 'bootstrap', '--min-hosts', String(addresses.length), '--peer-ips', addresses.join(',')],
      (line) => {
        report(line);
        const token = /flynn-host join ([\w-]{40,})/.exec(line)?.[1];
        if (token !== undefined) told.resolve(token);
      },
    );
    const joining = told.promise.then((token) => Promise.all(others.map((host) => join(host, token))));
    // One that fails before it has said the token leaves nothing to join.
    bootstrap.catch((error: unknown) => told.reject(error));
    await Promise.all([bootstrap, joining]);
    // Whoever uses the cluster from this machine does so as the person who made it.
    await symlink(resolve(first.directory, 'config'), resolve(this.cluster.directory, 'config'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cluster[Symbol.asyncDispose]();
  }
}
