/** Which cluster and which app a command means, and a client that reaches them. */
import { certificatesIn, fingerprintOf, parseCertificate } from '@flynn/kit/certificate';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import {
  type Cluster,
  changeClusters,
  configDirectory,
  findCluster,
  loadClusters,
  withPin,
} from './clusters/clusters.ts';
import { appOfRemotes, listRemotes } from './git.ts';
import { type Io, isDumb } from './io.ts';
import { ProgressLine, visible, visiblyPainted } from './output.ts';
import { PatientClient } from './clusters/patient-client.ts';
import { type Trust, explainTrust, successorOf } from './clusters/trust.ts';

/** How messages begin to name it; its address follows. */
export const controllerName = 'the controller at';

export type CommonOptions = { app?: string; cluster?: string; json?: boolean };

export class Context implements AsyncDisposable {
  readonly io: Io;
  readonly options: CommonOptions;
  #client: HttpClient | undefined;
  #progress: ProgressLine | undefined;
  #hasWaited = false;
  /** It is of an authority that the pinned one has signed for. */
  #isEndorsed = false;

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
      onWait: (error) => this.waits(error),
      onSigner: (signer) => {
        // What it is signed by may be shown as another one signed it: it is the key that tells.
        const pinned = certificatesIn(cluster.ca ?? '').map((one) => parseCertificate(one).publicKey);
        this.#isEndorsed = pinned.length > 0 && !pinned.some((key) => key.equals(signer.publicKey));
      },
      clock: this.io.clock,
    });
    return this.#client;
  }

  /**
   * `-a`, else $FLYNN_APP, else the git remote. Throws `invalid` with what to do when none of them tells; `otherwise` is what else
   * may be said in the place of an app.
   */
  async appName(otherwise?: string): Promise<string> {
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
      `which app? ${why}\n  name it with -a NAME, ${otherwise === undefined ? '' : `say ${otherwise}, `}or run "flynn create" in the repository; "flynn apps" lists them`,
    );
  }

  /** What the command answers; control characters in it are shown, not obeyed. */
  print(text: string): void {
    const shown = visiblyPainted(this.io.stdout, text);
    this.pass(shown === '' || shown.endsWith('\n') ? shown : `${shown}\n`);
  }

  /** What apps and builds have said, and files: every byte as it is. */
  pass(text: string, output = this.io.stdout): void {
    this.#progress?.clear();
    output.write(text);
  }

  /** For people, beside what the command answers. */
  tell(text: string): void {
    this.pass(`${visible(text)}\n`, this.io.stderr);
  }

  /** JSON when asked for, else the text. */
  show(value: unknown, text: () => string): void {
    this.print(this.options.json ? JSON.stringify(value, undefined, 2) : text());
  }

  async progress<T>(text: string | (() => string), work: () => Promise<T>): Promise<T> {
    // What cannot go back in a line would have it written again and again.
    if (isDumb(this.io)) return work();
    using line = new ProgressLine(this.io.stderr, text);
    this.#progress = line;
    try {
      return await work();
    } finally {
      this.#progress = undefined;
    }
  }

  /** Once for a command: it goes on by itself, or ends with why. */
  waits({ message }: FlynnError): void {
    if (this.#hasWaited) return;
    this.#hasWaited = true;
    this.tell(`the cluster cannot answer just now (${message}): asking again`);
  }

  /** A failure of the client in words for people, where it is about whom to trust. */
  async explained(error: unknown): Promise<unknown> {
    if (this.#client === undefined) return error;
    const cluster = await this.cluster();
    return await explainTrust(error, cluster.controllerUrl, pinOf(cluster));
  }

  /**
   * A cluster whose authority was made anew was known by the word of the one that is pinned: from now on it is by its own, so
   * that the one before is of no use to whoever may have its key. What the command has done is done: where this cannot be kept,
   * the next one tries it again.
   */
  async keepPin(): Promise<void> {
    if (!this.#isEndorsed) return;
    try {
      await this.#pinSuccessor();
    } catch (error) {
      this.tell(`flynn: the cluster has made its authority anew, and that could not be pinned: ${messageOf(error)}`);
      this.tell('  the one before stays pinned; the next command tries it again');
    }
  }

  async #pinSuccessor(): Promise<void> {
    const { name, controllerUrl, ca = '' } = await this.cluster();
    const successor = await successorOf(controllerUrl, ca);
    if (successor === undefined) return;
    await changeClusters(this.configDirectory, (known) => withPin(known, name, successor));
    this.tell(
      `the cluster ${name} has made its authority anew, and the one that was pinned has signed for it: pinned is now\n  ${fingerprintOf(successor)}`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client?.close();
  }
}

type ConnectOptions = Partial<Pick<ConstructorParameters<typeof PatientClient>[0], 'onWait' | 'onSigner' | 'clock'>>;

/** `onWait`: told when something is asked again because it cannot be answered just now. */
export function connect(
  controllerUrl: string,
  key: string,
  trust: Trust = {},
  { onWait = () => undefined, ...rest }: ConnectOptions = {},
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
