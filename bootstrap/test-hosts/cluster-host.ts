/** A test host as a host of a cluster: with its own settings, host agent and, on some, member of etcd. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { residentFile } from '@flynn/host-agent/cluster/etcd-resident';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { engineAt } from '../machine/engine.ts';
import { repository } from '../images/bundle.ts';
import type { Cluster } from '../settings.ts';
import { readCluster } from '../state.ts';
import { type ExecOptions, type ExecResult, TestHost } from './test-host.ts';

const node = join(repository, 'node_modules/.bin/node');
const upMs = 600_000;

export class ClusterHost extends TestHost {
  get stateDir(): string {
    return join(this.directory, 'flynn');
  }

  /** Settings of `up` and `down` that are this host's own. */
  get settings(): Record<string, string> {
    return {
      FLYNN_HOST_ID: this.name,
      FLYNN_ADDRESS: this.address,
      FLYNN_STATE_DIR: this.stateDir,
      FLYNN_DOCKER_SOCKET: this.dockerSocket,
      FLYNN_CONFIG_DIR: join(this.directory, 'config'),
      FLYNN_SUPERVISOR: 'own',
    };
  }

  /** What `up` settled here; nothing as long as this is no host of a cluster. */
  readCluster(): Promise<Cluster | undefined> {
    return readCluster(this.stateDir);
  }

  /** `up` or `down` as on a machine of its own; any exit code is an answer. */
  tryScript(script: 'up' | 'down', args: readonly string[] = [], options: ExecOptions = {}): Promise<ExecResult> {
    return this.exec([node, `bootstrap/${script}.ts`, ...args], {
      cwd: repository,
      timeoutMs: upMs,
      ...options,
      env: { ...this.settings, ...options.env },
    });
  }

  /** What it wrote to standard output; `internal` with what it said when it fails. */
  async up(args: readonly string[] = [], options: ExecOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.tryScript('up', args, options);
    if (code === 0) return stdout;
    const said = `${stdout}${stderr}`.trim().split('\n').slice(-12).join('\n');
    throw new FlynnError('internal', `up of ${this.name} failed with ${code}:\n${said}`);
  }

  /** What the machine's boot starts: the engine, then the supervisor of the host agent, and nothing else. */
  async boot(): Promise<void> {
    await this.startEngine();
    this.startAgent();
  }

  /** Whether it was started: nothing is where its supervisor runs, or there never was one. */
  startAgent(): boolean {
    if (!existsSync(join(this.stateDir, 'agent.env')) || this.#supervisorPids().length > 0) return false;
    const [program, args] = this.command([
      'sh',
      join(repository, 'bootstrap/supervise'),
      this.stateDir,
      node,
      join(this.stateDir, 'agent/current/host-agent.mjs'),
    ]);
    spawn(program, args, { detached: true, stdio: 'ignore', cwd: '/' }).unref();
    return true;
  }

  /** Until a job runs here. */
  async untilBusy(): Promise<void> {
    await waitFor(async () => (await engineAt(this.dockerSocket).listContainers()).length > 0, {
      what: `a job to run on ${this.name}`,
      deadlineMs: 90_000,
      intervalMs: 200,
    });
  }

  /** Killed with its supervisor, and started with its settings as they are in the file now. */
  async restartAgent(): Promise<void> {
    const pids = [...this.#supervisorPids(), this.agentPid()];
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await waitFor(() => this.pids('host-agent.mjs').every((pid) => !pids.includes(pid)), {
      what: `the host agent of ${this.name} to end`,
      deadlineMs: 60_000,
    });
    this.startAgent();
  }

  /** The process that runs jobs on the host. */
  agentPid(): number {
    // Its supervisor has the program's name among its words, too, and so have the shells by which that starts it.
    const pid = this.processes('host-agent.mjs').find(({ command }) => /^\S*\/node /.test(command))?.pid;
    if (pid === undefined) throw new FlynnError('not_found', `no host agent runs on ${this.name}`);
    return pid;
  }

  #supervisorPids(): number[] {
    return this.pids(`supervise ${this.stateDir}`);
  }

  /** Nobody starts an agent that ends. */
  freezeSupervisor(): void {
    for (const pid of this.#supervisorPids()) process.kill(pid, 'SIGSTOP');
  }

  thawSupervisor(): void {
    for (const pid of this.#supervisorPids()) process.kill(pid, 'SIGCONT');
  }

  freezeAgent(): void {
    process.kill(this.agentPid(), 'SIGSTOP');
  }

  thawAgent(): void {
    process.kill(this.agentPid(), 'SIGCONT');
  }

  /** Whether it runs a member of etcd, or would if it were on. */
  hasStore(): boolean {
    return existsSync(residentFile(this.stateDir));
  }

  /** The process of its member of etcd, if it has one. */
  storePid(): number {
    // Not its init, which only waits for it.
    const pid = this.processes('').find((one) => one.isContainer && /^(\S*\/)?etcd /.test(one.command))?.pid;
    if (pid === undefined) throw new FlynnError('not_found', `${this.name} runs no member of etcd`);
    return pid;
  }

  /** Its member of etcd is started again, with so little room. */
  async limitStore(quotaBytes: number): Promise<void> {
    const pid = this.storePid();
    const file = residentFile(this.stateDir);
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace(/quota-backend-bytes=\d+/, `quota-backend-bytes=${quotaBytes}`));
    await waitFor(() => this.storePid() !== pid, {
      what: `the member of ${this.name} to be another`,
      deadlineMs: 60_000,
    });
  }

  freezeStore(): void {
    process.kill(this.storePid(), 'SIGSTOP');
  }

  thawStore(): void {
    process.kill(this.storePid(), 'SIGCONT');
  }
}
