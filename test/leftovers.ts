/** Did the suites end whatever they started? What a run left behind is told, and the run has failed. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

const graceMs = 15_000;
/** Ours begin so; npm's cache and an engine's dumps are theirs. */
const ownPrefix = 'flynn';

const label = '--filter=label=flynn.test=1';
const listings = [
  ['container', ['ps', '--all', label, '--format={{.ID}} {{.Image}}']],
  ['network', ['network', 'ls', label, '--format={{.ID}} {{.Name}}']],
] as const;

/**
 * A temporary folder of the run's own, so that whatever is in it at the end is the run's. Of the engine, what carries the
 * tests' label and was not there at the start: of two runs at once on one engine each takes the other's for its own.
 */
export class Leftovers implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'flynn-test-'));
  #before: ReadonlySet<string> | undefined;

  constructor() {
    // Builds run as a user of their own, and have to get through to what is theirs.
    chmodSync(this.folder, 0o711);
  }

  /** From the first call on the engine is looked at, too. */
  lookAtEngine(): void {
    this.#before ??= new Set(inEngine());
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
    const before = this.#before;
    const files = readdirSync(this.folder)
      .filter((name) => name.startsWith(ownPrefix))
      .map((name) => `${name} in the temporary folder`);
    return before === undefined ? files : [...files, ...inEngine().filter((one) => !before.has(one))];
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function inEngine(): string[] {
  return listings.flatMap(([kind, args]) =>
    execFileSync('docker', args, { encoding: 'utf8', timeout: 60_000 })
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => `${kind} ${line}`),
  );
}
