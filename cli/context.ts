/** Which cluster and which app a command means, and a client that reaches them. */
import type { Clock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { type Cluster, configDirectory, findCluster, loadClusters } from './clusters.ts';
import { appOfRemotes, listRemotes } from './git.ts';
import type { Io } from './io.ts';
import { ProgressLine } from './output.ts';
import { PatientClient } from './patient-client.ts';
import { type Trust, explainTrust } from './trust.ts';

/** How messages begin to name it; its address follows. */
export const controllerName = 'the controller at';

export type CommonOptions = { app?: string; cluster?: string; json?: boolean };

export class Context implements AsyncDisposable {
  readonly io: Io;
  readonly options: CommonOptions;
  #client: HttpClient | undefined;
  #progress: ProgressLine | undefined;
  #hasWaited = false;

  constructor(io: Io, options: CommonOptions) {
    this.io = io;
    this.options = options;
  }

  get configDirectory(): string {
    return configDirectory(this.io.env);
  }

  async cluster(): Promise<Cluster> {
    return findCluster(await loadClusters(this.configDirectory), this.options.cluster);
  }

  async client(): Promise<HttpClient> {
    const cluster = await this.cluster();
    this.#client ??= connect(cluster.controllerUrl, cluster.key, pinOf(cluster), {
      onWait: (error) => this.#waits(error),
      clock: this.io.clock,
    });
    return this.#client;
  }

  /** `-a`, else $FLYNN_APP, else the git remote. Throws `invalid` with what to do when none of them tells. */
  async appName(): Promise<string> {
    const named = [this.options.app, this.io.env['FLYNN_APP']].find((name) => name !== undefined && name !== '');
    if (named !== undefined) return named;
    const cluster = await this.cluster();
    const remotes = await listRemotes(this.io);
    const found = appOfRemotes(remotes, cluster.gitUrl);
    if (found !== undefined) return found;
    const other = remotes.find((remote) => remote.name === 'flynn');
    const why =
      other === undefined
        ? `There is no git remote of the cluster ${cluster.name} here`
        : `The git remote flynn (${other.url}) is not of the cluster ${cluster.name}`;
    throw new FlynnError(
      'invalid',
      `which app? ${why}\n  name it with -a NAME, or run "flynn create" in the repository; "flynn apps" lists them`,
    );
  }

  print(text: string): void {
    this.#progress?.clear();
    this.io.stdout.write(text === '' || text.endsWith('\n') ? text : `${text}\n`);
  }

  /** JSON when asked for, else the text. */
  show(value: unknown, text: () => string): void {
    this.print(this.options.json ? JSON.stringify(value, undefined, 2) : text());
  }

  async progress<T>(text: string, work: () => Promise<T>): Promise<T> {
    using line = new ProgressLine(this.io.stderr, text);
    this.#progress = line;
    try {
      return await work();
    } finally {
      this.#progress = undefined;
    }
  }

  /** Once for a command: it goes on by itself, or ends with why. */
  #waits({ message }: FlynnError): void {
    if (this.#hasWaited) return;
    this.#hasWaited = true;
    this.#progress?.clear();
    this.io.stderr.write(`the cluster cannot answer just now (${message}): asking again\n`);
  }

  /** A failure of the client in words for people, where it is about whom to trust. */
  async explained(error: unknown): Promise<unknown> {
    if (this.#client === undefined) return error;
    const cluster = await this.cluster();
    return await explainTrust(error, cluster.controllerUrl, pinOf(cluster));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.close();
  }
}

/** `onWait`: told when something is asked again because it cannot be answered just now. */
export function connect(
  controllerUrl: string,
  key: string,
  trust: Trust = {},
  { onWait = () => undefined, ...rest }: { onWait?: (error: FlynnError) => void; clock?: Clock } = {},
): HttpClient {
  return new PatientClient({
    baseUrl: controllerUrl,
    key,
    name: `${controllerName} ${controllerUrl}`,
    onWait,
    ...rest,
    ...trust,
  });
}

function pinOf({ ca }: Cluster): Trust {
  return ca === undefined ? {} : { ca };
}
