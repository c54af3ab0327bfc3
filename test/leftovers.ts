/** Did the suites end whatever they started? What a run left behind is told, and the run has failed. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

const graceMs = 15_000;
/** Ours begin so; npm's cache and an engine's dumps are theirs. */
const ownPrefix = 'flynn';

/** For one call of the engine: one that does not answer in time is asked once more, and then given up. */
const callMs = 30_000;

type Docker = (args: readonly string[]) => string;

/** What a run of tests has in the engine: what carries its label. Another run on the same engine has one of its own. */
export class EngineOfRun {
  readonly #filter: string;
  readonly #docker: Docker;

  constructor(run: string, docker: Docker = ask) {
    this.#filter = `label=flynn.test=${run}`;
    this.#docker = docker;
  }

  list(): string[] {
    const containers = this.#lines(['ps', '--all', `--filter=${this.#filter}`, '--format={{.ID}} {{.Image}}']);
    const networks = this.#lines(['network', 'ls', `--filter=${this.#filter}`, '--format={{.ID}} {{.Name}}']);
    return [...containers.map((line) => `container ${line}`), ...networks.map((line) => `network ${line}`)];
  }

  /** With what is on its networks. Answers why it could not. Somebody else may be removing the same: then it looks again. */
  remove(): string | undefined {
    try {
      this.#removeOnce();
    } catch {
      try {
        this.#removeOnce();
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return `${why}; what is left is what docker ps --all --filter=${this.#filter} lists`;
      }
    }
    return undefined;
  }

  #removeOnce(): void {
    const networks = this.#lines(['network', 'ls', `--filter=${this.#filter}`, '--format={{.Name}}']);
    const filters = [this.#filter, ...networks.map((name) => `network=${name}`)];
    const found = filters.flatMap((filter) => this.#lines(['ps', '--all', `--filter=${filter}`, '--format={{.ID}}']));
    const containers = [...new Set(found)];
    if (containers.length > 0) this.#docker(['rm', '--force', '--volumes', ...containers]);
    if (networks.length > 0) this.#docker(['network', 'rm', ...networks]);
  }

  #lines(args: readonly string[]): string[] {
    return this.#docker(args)
      .split('\n')
      .filter((line) => line !== '');
  }
}

function ask(args: readonly string[]): string {
  return execFileSync('docker', args, { encoding: 'utf8', timeout: callMs });
}

/**
 * A temporary folder of the run's own, so that whatever is in it at the end is the run's. Of the engine, what carries the
 * run's label, which is the folder's name.
 */
export class Leftovers implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'flynn-test-'));
  readonly run = basename(this.folder);
  readonly #engine = new EngineOfRun(this.run);
  #hasEngine = false;

  constructor() {
    // Builds run as a user of their own, and have to get through to what is theirs.
    chmodSync(this.folder, 0o711);
  }

  /** From the first call on the engine is looked at, too. */
  lookAtEngine(): void {
    this.#hasEngine = true;
  }

  /** Of a run that somebody ended: processes of tests that were told may have had no time for it. Answers why it could not. */
  removeFromEngine(): string | undefined {
    return this.#hasEngine ? this.#engine.remove() : undefined;
  }

  /** What the engine and programs that have just ended still take away themselves gets its time. */
  async find(): Promise<string[]> {
    const deadline = performance.now() + graceMs;
    for (;;) {
      const left = this.#look();
      if (left.length === 0 || performance.now() > deadline) return left;
      await setTimeout(500);
    }
  }

  #look(): string[] {
    const files = readdirSync(this.folder)
      .filter((name) => name.startsWith(ownPrefix))
      .map((name) => `${name} in the temporary folder`);
    return this.#hasEngine ? [...files, ...this.#engine.list()] : files;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
