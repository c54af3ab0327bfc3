/** A one-host cluster in a network namespace, used as a person would: `npm run up`, `git`, `bin/flynn`, HTTP. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { dirname, join, resolve } from 'node:path';
import { createTestHost, type ExecOptions, type ExecResult, type TestHost } from './test-host.ts';

const root = resolve(import.meta.dirname, '..');

export type Answer = { status: number; body: string; headers: Record<string, string | string[] | undefined> };

export type RunOptions = ExecOptions & {
  /** The exit code that is right; `any` leaves the verdict to the caller. Default 0. */
  code?: number | 'any';
};

export class TestCluster implements AsyncDisposable {
  readonly host: TestHost;
  readonly directory: string;
  readonly domain = 'flynn.localhost';

  private constructor(host: TestHost, directory: string) {
    this.host = host;
    this.directory = directory;
  }

  static async create(index: number, options: { hasImages?: boolean } = {}): Promise<TestCluster> {
    const host = await createTestHost({ name: `host${index}`, index, ...options });
    const directory = await mkdtemp(join(host.directory, 'work-'));
    return new TestCluster(host, directory);
  }

  /** For command lines that a shell or another program runs on the host. */
  readonly flynnCommand = join(root, 'bin/flynn');

  /** Settings of `up`, `down` and the CLI that keep this cluster apart from any other on the machine. */
  get env(): Record<string, string> {
    return {
      HOME: this.directory,
      FLYNN_STATE_DIR: join(this.host.directory, 'flynn'),
      FLYNN_CONFIG_DIR: join(this.directory, 'config'),
      FLYNN_DOCKER_SOCKET: this.host.dockerSocket,
      FLYNN_SUPERVISOR: 'own',
      FLYNN_SUBNET: '100.100.200.0/24',
      GIT_AUTHOR_NAME: 'A Person',
      GIT_AUTHOR_EMAIL: 'person@example.com',
      GIT_COMMITTER_NAME: 'A Person',
      GIT_COMMITTER_EMAIL: 'person@example.com',
    };
  }

  async exec(args: readonly [string, ...string[]], options: RunOptions = {}): Promise<ExecResult> {
    const { code = 0, ...rest } = options;
    const result = await this.host.exec(args, {
      cwd: this.directory,
      timeoutMs: 120_000,
      ...rest,
      env: { ...this.env, ...rest.env },
    });
    if (code !== 'any') {
      assert.equal(
        result.code,
        code,
        `"${args.join(' ')}" ended with ${result.code}, not ${code}\n--- stdout\n${result.stdout}\n--- stderr\n${result.stderr}`,
      );
    }
    return result;
  }

  up(options?: RunOptions): Promise<ExecResult> {
    return this.exec([join(root, 'node_modules/.bin/node'), 'bootstrap/up.ts'], {
      cwd: root,
      timeoutMs: 300_000,
      ...options,
    });
  }

  down(options?: RunOptions): Promise<ExecResult> {
    return this.exec([join(root, 'node_modules/.bin/node'), 'bootstrap/down.ts'], { cwd: root, ...options });
  }

  flynn(args: readonly string[], options?: RunOptions): Promise<ExecResult> {
    return this.exec([this.flynnCommand, ...args], options);
  }

  docker(...args: string[]): Promise<ExecResult> {
    return this.exec(['docker', '-H', `unix://${this.host.dockerSocket}`, ...args]);
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

  /** One request through the router to `NAME.DOMAIN`, from outside the host. */
  get(name: string, path = '/', options: { signal?: AbortSignal } = {}): Promise<Answer> {
    return new Promise((done, fail) => {
      const outgoing = request(
        {
          host: this.host.address,
          port: 80,
          path,
          agent: false,
          headers: { host: name.includes('.') ? name : `${name}.${this.domain}` },
          timeout: 10_000,
          ...(options.signal ? { signal: options.signal } : {}),
        },
        (incoming) => {
          let body = '';
          incoming.setEncoding('utf8');
          incoming.on('data', (chunk: string) => (body += chunk));
          incoming.on('end', () => done({ status: incoming.statusCode ?? 0, body, headers: incoming.headers }));
          incoming.on('error', fail);
        },
      );
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer within 10 s')));
      outgoing.on('error', fail);
      outgoing.end();
    });
  }

  /** The jobs `flynn ps` tells of, as JSON. */
  async jobs(app: string): Promise<{ id: string; type: string; state: string; restarts: number }[]> {
    return JSON.parse((await this.flynn(['-a', app, 'ps', '--json'])).stdout) as {
      id: string;
      type: string;
      state: string;
      restarts: number;
    }[];
  }

  /** Ids of running containers of an app's process type. */
  async containers(app: string, type: string): Promise<string[]> {
    const { stdout } = await this.docker(
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

  /** The process that runs jobs on the host. */
  agentPid(): number {
    const supervisors = this.host.pids('supervise');
    const pid = this.host.pids('host-agent.mjs').find((one) => !supervisors.includes(one));
    assert.ok(pid !== undefined, 'no host agent runs');
    return pid;
  }

  /** What the machine's boot would start: the supervisor of the host agent, and nothing else. */
  startAgent(): void {
    const [program, args] = this.host.command([
      'sh',
      join(root, 'bootstrap/supervise'),
      this.env['FLYNN_STATE_DIR'] ?? '',
      join(root, 'node_modules/.bin/node'),
      join(this.env['FLYNN_STATE_DIR'] ?? '', 'agent/current/host-agent.mjs'),
    ]);
    spawn(program, args, { detached: true, stdio: 'ignore', cwd: '/' }).unref();
  }

  /** The host as its containers reach it. */
  readonly gateway = '100.100.200.1';

  /** Every key of the cluster's store, from etcd's own JSON gateway. */
  async storeKeys(): Promise<string[]> {
    const base64 = (text: string): string => Buffer.from(text).toString('base64');
    const query = { key: base64('/flynn/'), range_end: base64('/flynn0'), keys_only: true };
    const url = `http://${this.gateway}:2379/v3/kv/range`;
    const script =
      'fetch(process.argv[1], { method: "POST", body: process.argv[2] }).then(async (answer) => console.log(await answer.text()))';
    const { stdout } = await this.exec(['node', '-e', script, url, JSON.stringify(query)]);
    const { kvs } = JSON.parse(stdout) as { kvs: { key: string }[] };
    return kvs.map(({ key }) => Buffer.from(key, 'base64').toString());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

export class Checkout {
  readonly cluster: TestCluster;
  readonly name: string;
  readonly directory: string;

  constructor(cluster: TestCluster, name: string, directory: string) {
    this.cluster = cluster;
    this.name = name;
    this.directory = directory;
  }

  async write(file: string, text: string): Promise<void> {
    await mkdir(dirname(join(this.directory, file)), { recursive: true });
    await writeFile(join(this.directory, file), text);
  }

  read(file: string): Promise<string> {
    return readFile(join(this.directory, file), 'utf8');
  }

  async commit(message: string): Promise<void> {
    await this.cluster.exec(['git', 'add', '--all'], { cwd: this.directory });
    await this.cluster.exec(['git', 'commit', '--quiet', '--allow-empty', '-m', message], { cwd: this.directory });
  }

  push(options?: RunOptions): Promise<ExecResult> {
    return this.cluster.exec(['git', 'push', 'flynn', 'main'], { cwd: this.directory, timeoutMs: 300_000, ...options });
  }

  flynn(args: readonly string[], options?: RunOptions): Promise<ExecResult> {
    return this.cluster.flynn(args, { cwd: this.directory, ...options });
  }

  get(path = '/'): Promise<Answer> {
    return this.cluster.get(this.name, path);
  }
}
