/** A machine in an office, behind NAT that lets in what was asked for alone: a person, a runner, and a registry of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hostNetworkOf, suiteHosts } from '@flynn/bootstrap/test-hosts/network';
import { type ExecOptions, type ExecResult, TestHost } from '@flynn/bootstrap/test-hosts/test-host';
import { FlynnError } from '@flynn/kit/errors';
import type { TestCluster } from '../test-cluster.ts';
import type { RegistryInput } from './private-registry.ts';

const bin = join(import.meta.dirname, '../../bin');
const program = join(import.meta.dirname, 'private-registry.ts');
const registryPort = 5000;
const name = 'office';

export type Login = Readonly<{ username: string; password: string }>;

export class Office implements AsyncDisposable {
  readonly #machine: TestHost;
  /** Of its router: where whoever is outside would have to knock. */
  readonly outerAddress: string;
  /** As references name its registry. */
  readonly registry: string;

  private constructor(machine: TestHost, outerAddress: string) {
    this.#machine = machine;
    this.outerAddress = outerAddress;
    this.registry = `${machine.address}:${registryPort}`;
  }

  static async open(cluster: TestCluster, index: number): Promise<Office> {
    const behind = { isBehindNat: true };
    const { nat } = hostNetworkOf(suiteHosts, name, index, behind);
    const office = new Office(new TestHost(suiteHosts, name, index, behind), nat?.outerAddress ?? '');
    await office.#machine.create();
    await office.#leadTo(cluster.host.address);
    return office;
  }

  /** Its own, and that of its router. */
  get addresses(): string[] {
    return [this.#machine.address, this.outerAddress];
  }

  get directory(): string {
    return this.#machine.directory;
  }

  get #runnerFile(): string {
    return join(this.directory, 'runner.env');
  }

  get #runnerLog(): string {
    return join(this.directory, 'runner.log');
  }

  /** What else the cluster's names mean here: they are those of a cluster on this very machine. */
  async #leadTo(host: string): Promise<void> {
    const toCluster = ['-d', '127.0.0.1', '-p', 'tcp', '-m', 'multiport', '--dports', '80,443,2222'];
    await this.run(['sh', '-c', 'echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet']);
    await this.run([
      'iptables',
      '-w',
      '-t',
      'nat',
      '-A',
      'OUTPUT',
      ...toCluster,
      '-j',
      'DNAT',
      '--to-destination',
      host,
    ]);
    await this.run(['iptables', '-w', '-t', 'nat', '-A', 'POSTROUTING', '-o', 'eth0', '-j', 'MASQUERADE']);
  }

  /** As the person there. `code`: the exit code that is right, default 0. */
  async run(
    args: readonly [string, ...string[]],
    { code = 0, ...options }: ExecOptions & { code?: number } = {},
  ): Promise<ExecResult> {
    const key = join(this.directory, 'id_ed25519');
    const ssh = `ssh -F none -i ${key} -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=${key}.known`;
    const person = { name: 'A Person', mail: 'person@example.com' };
    const env = {
      FLYNN_CONFIG_DIR: join(this.directory, 'config'),
      GIT_SSH_COMMAND: ssh,
      GIT_AUTHOR_NAME: person.name,
      GIT_AUTHOR_EMAIL: person.mail,
      GIT_COMMITTER_NAME: person.name,
      GIT_COMMITTER_EMAIL: person.mail,
    };
    const result = await this.#machine.exec(args, { timeoutMs: 600_000, ...options, env: { ...env, ...options.env } });
    if (result.code === code) return result;
    const said = `${result.stdout}\n${result.stderr}\n--- its runner\n${await this.runnerLog()}`;
    throw new FlynnError('internal', `"${args.join(' ')}" ended with ${result.code}, not ${code}\n${said}`);
  }

  flynn(args: readonly string[], options?: ExecOptions & { code?: number }): Promise<ExecResult> {
    return this.run([join(bin, 'flynn'), ...args], options);
  }

  /** As a person starts one who has logged in at the registry with Docker. */
  async startRunner(written: string, { username, password }: Login): Promise<void> {
    const auth = Buffer.from(`${username}:${password}`).toString('base64');
    const config = join(this.directory, 'docker/config.json');
    await mkdir(join(config, '..'), { recursive: true });
    await writeFile(config, JSON.stringify({ auths: { [this.registry]: { auth } } }), { mode: 0o600 });
    await writeFile(this.#runnerFile, written, { mode: 0o600 });
    const own = `FLYNN_REGISTRY_CONFIG=${config}\nFLYNN_PLAIN_REGISTRIES=${this.registry}\n`;
    await appendFile(this.#runnerFile, own);
    await using log = await open(this.#runnerLog, 'w');
    const [nsenter, args] = this.#machine.command([join(bin, 'flynn-runner'), this.#runnerFile]);
    const env = { PATH: process.env['PATH'], HOME: this.directory };
    spawn(nsenter, args, { env, cwd: this.directory, detached: true, stdio: ['ignore', log.fd, log.fd] }).unref();
  }

  async runnerLog(): Promise<string> {
    try {
      return await readFile(this.#runnerLog, 'utf8');
    } catch {
      return 'it was never started';
    }
  }

  /** It runs until the office goes. */
  async startRegistry(files: ReadonlyMap<string, Buffer>, login: Login): Promise<void> {
    const encoded = [...files].map(([path, bytes]) => [path, bytes.toString('base64')]);
    const input: RegistryInput = {
      address: this.#machine.address,
      port: registryPort,
      ...login,
      files: Object.fromEntries(encoded),
    };
    const [nsenter, args] = this.#machine.command([process.execPath, program]);
    const server = spawn(nsenter, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    server.stdin.end(JSON.stringify(input));
    await once(server.stdout, 'data', { signal: AbortSignal.timeout(60_000) });
    server.stdout.destroy();
    server.unref();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#machine[Symbol.asyncDispose]();
  }
}
